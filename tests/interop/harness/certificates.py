"""Certificates of a suite's own making."""

import subprocess


def certificate(folder, names=("localhost",)):
    """A certificate for these names and 127.0.0.1 that signs itself, which clients pin."""
    pem, key = folder / "authority.pem", folder / "authority.key"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    alternatives = ",".join([*(f"DNS:{name}" for name in names), "IP:127.0.0.1"])
    command += ["-subj", f"/CN={names[0]}", "-addext", f"subjectAltName={alternatives}", "-keyout", key, "-out", pem]
    subprocess.run(command, check=True, capture_output=True)
    return pem, key
