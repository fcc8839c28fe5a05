"""A file that others replace is read again."""

import os

from tidegate.gate.shell.file_watch import FileWatch


def watching(path):
    """A watch of a file, and what it told."""
    told = []

    async def changed(data):
        told.append(data)

    return FileWatch(path, changed), told


async def test_each_change_is_told_once(tmp_path):
    path = tmp_path / "keys"
    watch, told = watching(path)
    await watch.look()
    for content in (b"one", b"one", b"two"):
        path.write_bytes(content)
        await watch.look()

    assert told == [b"one", b"two"]


async def test_a_mounted_secret_changes_by_a_link_and_keeps_size_and_time(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).write_bytes(name.encode())
        os.utime(tmp_path / name, (1, 1))
    link = tmp_path / "keys"
    watch, told = watching(link)
    link.symlink_to("one")
    await watch.look()
    (tmp_path / "next").symlink_to("two")
    (tmp_path / "next").replace(link)
    await watch.look()

    assert told == [b"one", b"two"]


async def test_a_file_that_is_gone_is_told_once_and_what_was_read_stands(tmp_path, caplog):
    path = tmp_path / "keys"
    path.write_bytes(b"one")
    watch, told = watching(path)
    await watch.look()
    path.unlink()
    await watch.look()
    await watch.look()

    assert told == [b"one"]
    assert caplog.text.count("cannot be read") == 1
