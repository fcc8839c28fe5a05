"""`tidegate plan --batch`: one JSON case a line in, one JSON answer a line out."""
