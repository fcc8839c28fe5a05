"""A copy on disk is whole or the old one, and costs nothing where there is no disk."""

import asyncio
import contextlib

from tests.unit.gate.shell.scripted_api import until

from tidegate.gate.shell.disk_copy import DiskCopy


@contextlib.asynccontextmanager
async def running(copy):
    task = asyncio.create_task(copy.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_what_is_kept_is_read_by_the_next_process(tmp_path):
    path = tmp_path / "state" / "gate.json"
    copy = DiskCopy(path)
    async with running(copy):
        copy.keep(b"one")
        copy.keep(b"two")
        await until(path.exists)

    assert DiskCopy(path).read() == b"two"
    assert list(path.parent.iterdir()) == [path]


async def test_there_is_nothing_to_read_at_the_first_start(tmp_path):
    assert DiskCopy(tmp_path / "none").read() is None


async def test_what_is_on_disk_already_is_not_written_again(tmp_path):
    path = tmp_path / "copy"
    path.write_bytes(b"one")
    before = path.stat().st_ino
    copy = DiskCopy(path)
    copy.read()
    async with running(copy):
        copy.keep(b"one")
        await asyncio.sleep(0.05)

    assert path.stat().st_ino == before


async def test_a_disk_that_fails_is_told_and_nothing_else(tmp_path, caplog):
    (tmp_path / "file").write_text("in the way")
    copy = DiskCopy(tmp_path / "file" / "copy")
    async with running(copy):
        copy.keep(b"one")
        await until(lambda: "cannot be written" in caplog.text)
        copy.keep(b"two")
        await until(lambda: caplog.text.count("cannot be written") == 2)
