"""Which kind of text a prompt is, as far as it shapes the characters in a token."""

from tidegate.gate.exchange import Script

_SAMPLE = 512
_CODE_MARKS = b"{}[]=<>_"
_CODE_SHARE = 0.03
"""Share of such marks from which text is code: prose has next to none, code 4 to 8 %, JSON more."""
_DENSE = "\u0590"
"""From Hebrew on, over Arabic, Indic and Thai to Chinese, a token holds one or two characters."""
_DENSE_SAMPLES = 256
_DENSE_SHARE = 0.3


def of(text: str) -> Script:
    """Classify a text by a sample of it."""
    if not text.isascii():
        sample = text[:: max(1, len(text) // _DENSE_SAMPLES)]
        dense = sum(character >= _DENSE for character in sample)
        if dense >= _DENSE_SHARE * len(sample):
            return Script.CJK
    middle = max(0, (len(text) - _SAMPLE) // 2)
    sample = text[middle : middle + _SAMPLE]
    spelled = sample.encode()
    marks = len(spelled) - len(spelled.translate(None, _CODE_MARKS))
    return Script.CODE if marks and marks >= _CODE_SHARE * len(sample) else Script.LATIN
