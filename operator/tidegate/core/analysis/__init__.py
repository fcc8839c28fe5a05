"""The judgement of a canary: from what users felt to a verdict, at stated error rates."""
