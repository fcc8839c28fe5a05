"""The container image of the double."""

from pathlib import Path

from e2e.cluster import images

REFERENCE = "localhost/tidegate/engine-double:dev"
CHECKOUT = Path(__file__).parents[2]
CONTEXT = (
    "e2e/__init__.py",
    "e2e/double",
    "e2e/engine/__init__.py",
    "e2e/engine/tiny_model.py",
    "e2e/engine/tiny_tokenizer.py",
    "operator/tidegate/facts/data/engines",
)


def double_image() -> Path:
    """Build the image, if anything in it changed, and return its tar."""
    return images.build_image(REFERENCE, CHECKOUT, "e2e/double/Dockerfile", include=CONTEXT)


if __name__ == "__main__":
    print(double_image())
