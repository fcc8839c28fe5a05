import pytest


def pytest_addoption(parser):
    parser.addoption(
        "--update-golden", action="store_true", help="write the golden files anew, then compare"
    )


@pytest.fixture
def update_golden(request):
    # the option is there where this folder is named on the command line
    return request.config.getoption("--update-golden", default=False)
