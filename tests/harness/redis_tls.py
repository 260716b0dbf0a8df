"""Certificates for a Redis that speaks TLS."""

import shutil
import subprocess

from harness.workspace import Skip


def certificates(folder):
    """A CA, a certificate of it for 127.0.0.1 (clients may show it, too), and another CA."""
    if not shutil.which("openssl"):
        raise Skip("openssl is not installed")
    folder.mkdir()
    def openssl(*words):
        subprocess.run(["openssl", *words], cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for name in ("ca", "other"):
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", f"/CN={name}",
                "-keyout", f"{name}.key", "-out", f"{name}.crt")
    openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=server", "-keyout", "server.key",
            "-out", "server.csr")
    (folder / "names").write_text("subjectAltName=IP:127.0.0.1\n")
    openssl("x509", "-req", "-in", "server.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", "names",
            "-out", "server.crt")
    return folder


def tls_options(folder, port, clients="no"):
    """For redis-server: it speaks TLS at that port as well. `clients`: whether they must show a certificate."""
    return ["--tls-port", str(port), "--tls-cert-file", str(folder / "server.crt"), "--tls-key-file", str(folder / "server.key"),
            "--tls-ca-cert-file", str(folder / "ca.crt"), "--tls-auth-clients", clients]
