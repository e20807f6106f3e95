"""Keys, signatures and verification of a grading: Ed25519, by the package cryptography.

``grading.json`` lists the hash of every file; ``grading.sig`` is the signature over its bytes. Ed25519 signs the same
bytes always the same.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cannlab.course.grading.submissions import file_digest, printable
from cannlab.errors import CannlabError, diagnose
from cannlab.trace.whole_file import write_whole

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

BOOK = "grading.json"
SIGNATURE = "grading.sig"


def _package() -> None:
    try:
        import cryptography  # noqa: F401
    except ImportError:
        raise CannlabError(
            diagnose("grading.no_package", feature="signing", package="cryptography", extra="sign")
        ) from None


def _key_error(path: Path, problem: str) -> CannlabError:
    return CannlabError(diagnose("grading.key", file=str(path), problem=problem))


def _create(path: Path, data: bytes, mode: int) -> None:
    """A new file with its mode from the start; never over another one."""
    try:
        number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    except FileExistsError:
        raise _key_error(path, "exists already; a key is never overwritten") from None
    except OSError as problem:
        raise _key_error(path, problem.strerror or str(problem)) from None
    with os.fdopen(number, "wb") as file:
        file.write(data)


def new_key(path: Path) -> Path:
    """Make a pair: ``path`` (secret, readable for its owner only) and ``path.pub``. Gives the latter.

    Raises:
        CannlabError: grading.key (a file exists, or cannot be written), grading.no_package.
    """
    _package()
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    public = path.with_name(path.name + ".pub")
    if public.exists():
        raise _key_error(public, "exists already; a key is never overwritten")
    key = Ed25519PrivateKey.generate()
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    _create(path, secret, 0o600)
    shown = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    _create(public, shown, 0o644)
    return public


def load_key(path: Path) -> Ed25519PrivateKey:
    """The secret key of a file. CannlabError (grading.key) if it is none."""
    _package()
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(path.read_bytes(), None)
    except OSError as problem:
        raise _key_error(path, problem.strerror or str(problem)) from None
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise _key_error(path, "is no secret key without a password") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise _key_error(path, "is no Ed25519 key")
    return key


def load_public(path: Path) -> Ed25519PublicKey:
    """The public key of a file. CannlabError (grading.key) if it is none."""
    _package()
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    try:
        key = load_pem_public_key(path.read_bytes())
    except OSError as problem:
        raise _key_error(path, problem.strerror or str(problem)) from None
    except (ValueError, UnsupportedAlgorithm):
        raise _key_error(path, "is no public key") from None
    if not isinstance(key, Ed25519PublicKey):
        raise _key_error(path, "is no Ed25519 key")
    return key


def fingerprint(key: Ed25519PublicKey) -> str:
    """A short name of a key: the start of the SHA-256 of its 32 bytes."""
    return hashlib.sha256(key.public_bytes_raw()).hexdigest()[:16]


def sign(out: Path, key: Ed25519PrivateKey) -> None:
    """Sign the grading.json of a folder."""
    signature = key.sign((out / BOOK).read_bytes())
    data = {
        "algorithm": "Ed25519",
        "key": fingerprint(key.public_key()),
        "signature": base64.b64encode(signature).decode(),
    }
    write_whole(out / SIGNATURE, (json.dumps(data, indent=1, sort_keys=True) + "\n").encode())


def verify(out: Path, public: Path) -> list[str]:
    """What is wrong with a folder of results, one sentence each; empty if all is as it was signed.

    Raises:
        CannlabError: grading.unreadable_output, grading.key, grading.no_package.
    """
    key = load_public(public)
    try:
        book = (out / BOOK).read_bytes()
    except OSError as problem:
        raise _unreadable(out, f"{BOOK}: {problem.strerror}") from None
    wrong = _signature(out, book, key)
    if wrong:
        # Without a good signature the list of hashes proves nothing.
        return [wrong]
    return changed_files(out, book)


def _unreadable(out: Path, problem: str) -> CannlabError:
    return CannlabError(diagnose("grading.unreadable_output", folder=str(out), problem=problem))


def _signature(out: Path, book: bytes, key: Ed25519PublicKey) -> str:
    from cryptography.exceptions import InvalidSignature

    try:
        data = json.loads((out / SIGNATURE).read_text(encoding="utf-8"))
        signature = base64.b64decode(data["signature"], validate=True)
        signed_by = str(data["key"])
    except FileNotFoundError:
        return f"{SIGNATURE} is missing: these results were not signed."
    except (OSError, ValueError, KeyError, TypeError):
        return f"{SIGNATURE} cannot be read."
    try:
        key.verify(signature, book)
    except InvalidSignature:
        if signed_by != fingerprint(key):
            return f"{BOOK} was signed with another key ({signed_by[:16]}, not {fingerprint(key)})."
        return f"{BOOK} was changed after it was signed."
    return ""


def changed_files(out: Path, book: bytes) -> list[str]:
    """Files that are not what grading.json says: changed, missing, or added."""
    try:
        files: dict[str, Any] = dict(json.loads(book)["files"])
    except (ValueError, KeyError, TypeError) as problem:
        raise _unreadable(out, f"{BOOK} is not what cannlab grade writes ({problem})") from None
    wrong = []
    for name, digest in sorted(files.items()):
        path = out / name
        if path.is_symlink() or not path.is_file():
            wrong.append(f"{name} is missing.")
        elif file_digest(path) != digest:
            wrong.append(f"{name} was changed.")
    known = {*files, BOOK, SIGNATURE}
    there = (path.relative_to(out).as_posix() for path in out.rglob("*") if not path.is_dir())
    wrong += [f"{printable(name)} was added." for name in sorted(there) if name not in known]
    return wrong
