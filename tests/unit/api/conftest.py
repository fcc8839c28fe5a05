"""Properties may take their time: a shared machine is no reason to fail."""

from hypothesis import settings

settings.register_profile("patient", deadline=None)
settings.load_profile("patient")
