# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the scripts that test `kiln serve` share: a server process, certificates, a count of cases."""
import glob
import os
import subprocess
import sys
import tempfile
import traceback

# Kiln's programs are built under ThreadSanitizer, whose memory is not theirs, and whose own thread wakes.
UNDER_TSAN = "TSAN_OPTIONS" in os.environ
PATIENCE = 10 if UNDER_TSAN else 1  # times slower that they may be


class Server:
    """`kiln serve` with a free port, or what `listen` says; stopped at the end of a with block."""

    def __init__(self, kiln, *options, listen="127.0.0.1:0", device="reference", env=None):
        command = [kiln, "serve", "--device", device, "--listen", listen, *options]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                        env={**os.environ, **(env or {})})
        self.line = self.process.stdout.readline().strip()
        if " at " not in self.line:
            raise RuntimeError(f"{' '.join(command)}: {self.line} {self.process.stderr.read()}")
        self.addresses = self.line.split(" at ", 1)[1].split()
        self.address = self.addresses[0]
        self.target = self.address.split("://", 1)[-1]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        self.process.terminate()
        try:
            return self.process.wait(timeout=60 * PATIENCE)
        finally:
            self.process.kill()
            self.process.wait()
            self.process.stdout.close()
            self.process.stderr.close()


def make_certificates(folder):
    """An authority, a server's and two clients' certificates, one without a common name, and a client's of nobody's
    authority."""
    def openssl(*arguments):
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    def authority(name):
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout",
                f"{name}.key", "-out", f"{name}.pem", "-days", "2", "-subj", f"/CN={name}")

    def signed(name, by, names, subject=None):
        with open(os.path.join(folder, f"{name}.ext"), "w", encoding="ascii") as file:
            file.write(f"subjectAltName={names}\n")
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout",
                f"{name}.key", "-out", f"{name}.csr", "-subj", subject or f"/CN={name}")
        openssl("x509", "-req", "-in", f"{name}.csr", "-CA", f"{by}.pem", "-CAkey", f"{by}.key",
                "-CAcreateserial", "-out", f"{name}.pem", "-days", "2", "-extfile", f"{name}.ext")

    authority("ca")
    authority("other")
    signed("server", "ca", "IP:127.0.0.1,DNS:localhost")
    signed("client", "ca", "DNS:client")
    signed("nameless", "ca", "DNS:machine.example", "/O=Kiln")
    signed("stranger", "other", "DNS:stranger")
    return lambda name: os.path.join(folder, name)


class Skip(Exception):
    """Ends a case whose means are not on this machine; says which."""


def measures_memory():
    if UNDER_TSAN:
        raise Skip("ThreadSanitizer keeps memory of its own")


class Races:
    """What ThreadSanitizer says of any program in a with block: a failure, whatever the program's end was."""

    def __init__(self, folder):
        self.reports = os.path.join(folder, "race")
        self.before = os.environ.get("TSAN_OPTIONS")

    def __enter__(self):
        if UNDER_TSAN:
            os.environ["TSAN_OPTIONS"] = f"{self.before}:log_path={self.reports}"

    def __exit__(self, *_):
        if UNDER_TSAN:
            os.environ["TSAN_OPTIONS"] = self.before
            for path in glob.glob(f"{self.reports}.*"):
                with open(path, encoding="utf-8", errors="replace") as file:
                    raise AssertionError(file.read())


def run_cases(suite, cases):
    """Runs functions that take a temporary folder; prints the harness's count line."""
    words = [word for word in sys.argv[1:] if word.startswith("case_")]
    failed = 0
    passed = 0
    skipped = 0
    for case in cases:
        if words and case.__name__ not in words:
            continue
        with tempfile.TemporaryDirectory(prefix="kiln-serve-") as folder:
            try:
                with Races(folder):
                    case(folder)
                passed += 1
            except Skip as why:
                skipped += 1
                print(f"SKIP {suite} {case.__name__}: {why}")
            except Exception:  # pylint: disable=broad-except
                failed += 1
                print(f"FAIL {suite} {case.__name__}")
                traceback.print_exc(file=sys.stdout)
    print(f"kiln-test: {passed} passed, {failed} failed, {skipped} skipped")
    sys.exit(1 if failed else 0)
