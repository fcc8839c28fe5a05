"""The webhook's authority and certificate over the years: nobody ever meets one he does not trust.

Nothing here takes time: the clock is a number.
"""

import datetime
import random

import pytest
from cryptography import x509
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.shell.admission import certificates
from tidegate.shell.admission.certificates import Held, Lifetimes
from tidegate.shell.admission.live_tls import LiveTls

NAMES = ["tidegate-webhook.tidegate-system.svc", "127.0.0.1"]
DAY = 86_400.0
BEGUN = 1_800_000_000.0
LIFETIMES = Lifetimes()


def renewed(held: Held, now: float, names=NAMES, is_published=True) -> Held:
    return certificates.renewed(held, names, now, LIFETIMES, is_published=is_published)


def is_trusted(held: Held, by: Held, now: float) -> bool:
    """Say whether who trusts the authorities of `by` accepts the certificate of `held`."""
    moment = datetime.datetime.fromtimestamp(now, datetime.UTC)
    certificate = x509.load_pem_x509_certificate(held.certificate)
    for pem in by.authorities:
        authority = x509.load_pem_x509_certificate(pem)
        if authority.subject == certificate.issuer:
            certificate.verify_directly_issued_by(authority)
            both = (authority, certificate)
            return all(c.not_valid_before_utc <= moment <= c.not_valid_after_utc for c in both)
    return False


def test_a_new_one_is_for_the_names_and_is_left_alone_for_months():
    held = certificates.first(NAMES, BEGUN, LIFETIMES)
    certificate = x509.load_pem_x509_certificate(held.certificate)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value

    assert names.get_values_for_type(x509.DNSName) == NAMES[:1]
    assert [str(a) for a in names.get_values_for_type(x509.IPAddress)] == NAMES[1:]
    assert held.expires == BEGUN + 90 * DAY
    assert renewed(held, BEGUN + 59 * DAY) == held
    assert renewed(held, BEGUN + 61 * DAY).expires == BEGUN + 151 * DAY


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 10_000), lag=st.integers(0, 3))
def test_at_every_look_what_is_served_is_trusted_by_who_read_the_look_before(seed, lag):
    """Over years, with looks at any time, and a publication that is late by weeks."""
    chance = random.Random(seed)
    held, now, unpublished = certificates.first(NAMES, BEGUN, LIFETIMES), BEGUN, 0
    published = held
    made = {held.authority_key}
    while now < BEGUN + 4 * 365 * DAY:
        now += chance.uniform(3600, 7 * DAY)
        unpublished = unpublished + 1 if published.authorities != held.authorities else 0
        if unpublished > lag:
            published = held
        held = renewed(held, now, is_published=published.authorities == held.authorities)
        made.add(held.authority_key)

        assert is_trusted(held, published, now)
        assert len(held.authorities) <= 2
    assert len(made) > 1, "the authority was followed by another"


def test_nothing_is_signed_by_an_authority_that_is_not_published_yet():
    held = certificates.first(NAMES, BEGUN, LIFETIMES)
    now = BEGUN + 1217 * DAY  # the last third of five years has begun
    held = renewed(held, now - 30 * DAY)
    overlapping = renewed(held, now)

    for later in (0, 700, 5 * DAY):
        unpublished = renewed(overlapping, now + later, is_published=False)
        assert is_trusted(unpublished, held, now + later), "those who know the old one only"
    assert renewed(overlapping, now + 60).certificate == overlapping.certificate, "too early"
    assert renewed(overlapping, now + 700).certificate != overlapping.certificate


def test_a_certificate_that_is_over_or_for_other_names_is_replaced_at_once():
    held = certificates.first(NAMES, BEGUN, LIFETIMES)

    over = renewed(held, BEGUN + 91 * DAY, is_published=False)
    moved = renewed(held, BEGUN + DAY, names=["other.svc"], is_published=False)

    assert is_trusted(over, held, BEGUN + 91 * DAY)
    assert is_trusted(moved, held, BEGUN + DAY)
    assert moved.certificate != held.certificate


def test_after_years_away_all_is_made_anew():
    held = certificates.first(NAMES, BEGUN, LIFETIMES)
    now = BEGUN + 6 * 365 * DAY

    found = renewed(held, now)

    assert found.authorities != held.authorities
    assert is_trusted(found, found, now)


@pytest.mark.parametrize("broken", ["authorities", "certificate"])
def test_what_cannot_be_read_is_told_apart(broken):
    held = certificates.first(NAMES, BEGUN, LIFETIMES)
    value = (b"nonsense",) if broken == "authorities" else b"nonsense"

    with pytest.raises(certificates.Unreadable):
        renewed(Held(**{**vars(held), broken: value}), BEGUN)


def test_a_certificate_is_loaded_once_and_a_wrong_key_leaves_the_old_one():
    first, other = (certificates.first(NAMES, BEGUN, LIFETIMES) for _ in range(2))
    tls = LiveTls()

    assert tls.load(first.chain)
    assert not tls.load(first.chain)
    with pytest.raises(OSError, match="MISMATCH"):
        tls.load(first.certificate + other.key)
    assert tls.is_loaded
    assert not tls.load(first.chain), "it is still the one that serves"
