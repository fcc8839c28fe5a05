"""The plan as a person reads it: a table of the budget with a bar, and the sentences behind it."""

from collections.abc import Sequence

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from tidegate.api.explanations import EXPLANATIONS
from tidegate.api.figures import Figure, How
from tidegate.api.reasons import Reason
from tidegate.api.wire import format_bytes
from tidegate.cli.verdict import Verdict
from tidegate.core.budget.sizing import Budget
from tidegate.core.canary import needs_told
from tidegate.core.canary.needs import Needs
from tidegate.core.plan import Plan, SlicePlan
from tidegate.errors import Refused, Wait

_BAR_WIDTH = 60
_WIDEST = 10_000
_LINES = (
    # (field of the budget, label, character of the bar, colour)
    ("weights", "weights", "▓", "blue"),
    ("draft", "draft model", "▒", "cyan"),
    ("activations", "activations", "▞", "magenta"),
    ("cuda_graphs", "CUDA graphs", "▚", "yellow"),
    ("runtime", "runtime", "▪", "white"),
    ("kv_cache", "KV cache", "█", "green"),
    ("reserve", "reserve", "░", "bright_black"),
)


class _Console(Console):
    """A console that leaves a closed pipe to the command."""

    def on_broken_pipe(self) -> None:
        """Raise what was caught: rich would end the process with 1."""
        raise BrokenPipeError


def print_verdict(verdict: Verdict) -> None:
    """Print a plan, or why there is none."""
    if verdict.plan is not None:
        print_plan(verdict.name, verdict.title, verdict.plan)
        if verdict.rollout is not None:
            print_rollout(verdict.rollout)
    elif verdict.refusal is not None:
        print_refusal(verdict.name, verdict.refusal)


def print_plan(name: str, title: str, plan: Plan) -> None:
    """Print every slice of a plan."""
    console = _Console(highlight=False, soft_wrap=True, emoji=False)
    console.print(Text(name, style="bold") + Text(f"  {title}", style="default"))
    for entry in plan.slices:
        console.print()
        _print_slice(console, entry)
    for exclusion in plan.exclusions:
        console.print()
        console.print(
            Text(f"{exclusion.pool} does not fit {exclusion.node_class}: ", style="red")
            + Text(f"{exclusion.message} ({exclusion.reason})")
        )
    _print_because(console, plan.because)
    console.print()


def print_rollout(needs: Needs) -> None:
    """Print what the next revision will need, step by step."""
    columns = needs_told.COLUMNS if needs.steps else ()
    print_table(needs_told.title(needs), columns, needs_told.rows(needs))
    print_sentences([*needs_told.sentences(needs)])
    _Console().print()


def print_refusal(name: str, refusal: Refused | Wait) -> None:
    """Print why there is no plan, and what to do."""
    console = _Console(highlight=False, soft_wrap=True, emoji=False)
    console.print(Text(f"{name}  {refusal.reason}: ", style="bold red") + Text(str(refusal)))
    explanation = EXPLANATIONS.get(Reason(refusal.reason))
    if explanation is not None:
        console.print(Text(f"  {explanation.action}"))


def print_table(
    title: str, columns: Sequence[tuple[str, bool]], rows: Sequence[Sequence[str]]
) -> None:
    """Print rows under columns (name, whether numbers), as wide as they are and never cut."""
    console = _Console(highlight=False, emoji=False)
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name, is_number in columns:
        table.add_column(Text(name), justify="right" if is_number else "left", no_wrap=True)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    if title:
        console.print(Text(title, style="bold"))
    if not columns:
        return
    unbounded = console.options.update(max_width=_WIDEST)
    console.width = max(console.width, Measurement.get(console, unbounded, table).maximum)
    console.print(table, crop=False)


def print_lines(*lines: Text) -> None:
    """Print lines as they are, however long."""
    console = _Console(highlight=False, soft_wrap=True, emoji=False)
    for line in lines:
        console.print(line)


def print_sentences(sentences: Sequence[str]) -> None:
    """Print sentences as a list."""
    _print_because(_Console(highlight=False, soft_wrap=True, emoji=False), tuple(sentences))


def _print_slice(console: Console, entry: SlicePlan) -> None:
    gpu, budget, pool = entry.node_class.gpu, entry.sizing.budget, entry.sizing.pool
    console.print(
        Text(f"{entry.pool}", style="bold")
        + Text(f" on {entry.node_class.product} ({gpu.name}): {_count(entry.replicas, 'pod')} of ")
        + Text(f"{_count(entry.gpus, 'GPU')}, {_count(entry.nodes, 'node')} of ")
        + Text(_count(entry.node_class.gpus_per_node, "GPU"))
    )
    console.print(bar(budget))
    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading, justify in (("each GPU", "left"), ("", "right"), ("", "right"), ("how", "left")):
        table.add_column(heading, justify="right" if justify == "right" else "left")
    table.add_row("total", *_cells(budget.total, budget.total.bytes))
    for field, label, mark, colour in _LINES:
        figure: Figure = getattr(budget, field)
        if figure.bytes or figure.high:
            table.add_row(
                Text(f"{mark} ", style=colour) + Text(label), *_cells(figure, budget.total.bytes)
            )
    console.print(table)
    p95 = entry.sizing.requests_at_p95
    console.print(
        f"KV: {pool.bytes_per_token:,} bytes a token, {pool.num_blocks:,} blocks of "
        f"{pool.block_size} tokens, {pool.cache_size_tokens:,} tokens; holds "
        f"{entry.sizing.requests_at_max_model_len:,} requests of {entry.engine.max_model_len:,} "
        "tokens" + (f", {p95:,} of the declared workload" if p95 is not None else "")
    )
    if entry.prefills and entry.prefill_tokens_per_second:
        speed = f"{entry.prefill_tokens_per_second:,.0f}"
        console.print(f"prefill: {speed} tokens per second of one pod, estimated")
    _print_because(console, entry.because)


def _print_because(console: Console, sentences: tuple[str, ...]) -> None:
    for sentence in sentences:
        console.print(Text("  · ", style="dim") + Text(sentence))


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _cells(figure: Figure, total_bytes: int) -> tuple[str, str, Text]:
    share = f"{100 * figure.bytes / total_bytes:.1f} %" if total_bytes else ""
    how = Text(str(figure.how), style="dim")
    if figure.how is How.ESTIMATED:
        how += Text(f", {format_bytes(figure.low)} to {format_bytes(figure.high)}", style="dim")
    return format_bytes(figure.bytes), share, how


def bar(budget: Budget) -> Text:
    """Return one GPU's memory as a bar; each line has at least one cell where it is not zero."""
    text = Text()
    shown = [(getattr(budget, field).bytes, mark, colour) for field, _, mark, colour in _LINES]
    for width, (_, mark, colour) in zip(
        cells([count for count, _, _ in shown], _BAR_WIDTH), shown, strict=True
    ):
        text.append(mark * width, style=colour)
    return text


def cells(counts: list[int], width: int) -> list[int]:
    """Divide `width` cells in proportion, by largest remainder; none that is not zero gets none."""
    total = sum(counts)
    if total == 0:
        return [0] * len(counts)
    exact = [count * width / total for count in counts]
    given = [max(int(value), 1 if count else 0) for value, count in zip(exact, counts, strict=True)]
    order = sorted(range(len(counts)), key=lambda index: given[index] - exact[index])
    for index in order:
        if sum(given) < width:
            given[index] += 1
    while sum(given) > width:
        given[given.index(max(given))] -= 1
    return given
