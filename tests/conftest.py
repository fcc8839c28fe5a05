"""What all tests share: hypothesis judges laws, not the speed of the machine that it runs on."""

from hypothesis import settings

settings.register_profile("patient", deadline=None)
settings.load_profile("patient")
