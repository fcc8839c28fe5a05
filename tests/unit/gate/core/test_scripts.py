import pytest

from tidegate.gate.core import scripts
from tidegate.gate.exchange import Script

CODE = "def f(x):\n    return [g(y) for y in x if y > 0]\n"


@pytest.mark.parametrize(
    ("text", "script"),
    [
        ("", Script.LATIN),
        ("Hello", Script.LATIN),
        ("It was the best of times; it was the worst (of times). " * 50, Script.LATIN),
        ("Größe, naïve, Ænima und übrigens façade. " * 50, Script.LATIN),
        ("Война и мир - роман. " * 50, Script.LATIN),
        (CODE * 100, Script.CODE),
        ('{"a": {"b": [1, 2, 3]}, "c": "d"}' * 50, Script.CODE),
        ("# naïve\n" + CODE * 100, Script.CODE),
        ("日本語のテキストです。" * 50, Script.CJK),
        ("한국어 텍스트입니다. " * 50, Script.CJK),
        ("这是中文 with English 在里面" * 50, Script.CJK),
        ("مرحبا بالعالم " * 50, Script.CJK),
        ("สวัสดีชาวโลก " * 50, Script.CJK),
        ("A long English text. " * 500 + "日本", Script.LATIN),
    ],
)
def test_a_text_is_of_the_kind_that_most_of_it_is(text, script):
    assert scripts.of(text) is script
