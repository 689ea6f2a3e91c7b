from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trustme

from xuanzang.server.access.tls import CertificateError, check_certificate

NOW = datetime.now(UTC)


def written(folder: Path, *, not_before: datetime, not_after: datetime) -> tuple[Path, Path]:
    issued = trustme.CA().issue_cert("translate.example.com", not_before=not_before, not_after=not_after)
    certificate, key = folder / "chain.pem", folder / "key.pem"
    certificate.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
    issued.private_key_pem.write_to_path(key)
    return certificate, key


@pytest.mark.parametrize(
    ("begin", "end", "reason"), [(-9, -1, "certificate has expired"), (1, 9, "certificate is not yet valid")]
)
def test_a_certificate_that_is_not_valid_today_is_refused(tmp_path: Path, begin: int, end: int, reason: str) -> None:
    files = written(tmp_path, not_before=NOW + timedelta(days=begin), not_after=NOW + timedelta(days=end))
    with pytest.raises(CertificateError, match=f"chain.pem: {reason}"):
        check_certificate(*files)


@pytest.mark.parametrize(("days", "warnings"), [(3, 1), (300, 0)])
def test_a_certificate_that_expires_soon_is_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, days: int, warnings: int
) -> None:
    check_certificate(*written(tmp_path, not_before=NOW - timedelta(days=1), not_after=NOW + timedelta(days=days)))
    assert [record.levelno for record in caplog.records] == [logging.WARNING] * warnings


def test_the_key_of_another_certificate_is_refused(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    certificate, _ = written(tmp_path, not_before=NOW, not_after=NOW + timedelta(days=9))
    _, key = written(tmp_path / "other", not_before=NOW, not_after=NOW + timedelta(days=9))
    with pytest.raises(CertificateError, match=r"key\.pem"):
        check_certificate(certificate, key)


def test_a_file_that_is_no_certificate_is_refused(tmp_path: Path) -> None:
    junk = tmp_path / "junk.pem"
    junk.write_text("junk")
    with pytest.raises(CertificateError, match=r"junk\.pem"):
        check_certificate(junk, junk)
