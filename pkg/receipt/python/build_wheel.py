"""Builds the wheel with the standard library alone, and always the same bytes (PEP 427, PEP 517).

usage: python3 build_wheel.py FOLDER
"""

import base64
import hashlib
import pathlib
import re
import sys
import zipfile

here = pathlib.Path(__file__).resolve().parent


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    project = (here / "pyproject.toml").read_text()
    name, version, summary, python = (
        re.search(rf'^{key} = "(.*)"$', project, re.M).group(1)
        for key in ("name", "version", "description", "requires-python")
    )
    module = name.replace("-", "_")
    info = f"{module}-{version}.dist-info"
    files = {f"{module}/{path.name}": path.read_bytes() for path in sorted((here / "src" / module).glob("*.py"))}
    files[f"{module}/py.typed"] = b""
    licence = here.parent.parent.parent / "LICENSE"
    if licence.exists():
        files[f"{info}/licenses/LICENSE"] = licence.read_bytes()
    files[f"{info}/METADATA"] = (
        f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nSummary: {summary}\nRequires-Python: {python}\n"
        f"License: Apache-2.0\nDescription-Content-Type: text/markdown\n\n{(here / 'README.md').read_text()}"
    ).encode()
    files[f"{info}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: pforte\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    record = ""
    for path, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
        record += f"{path},sha256={digest},{len(data)}\n"
    files[f"{info}/RECORD"] = (record + f"{info}/RECORD,,\n").encode()
    wheel = f"{module}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(pathlib.Path(wheel_directory) / wheel, "w", zipfile.ZIP_DEFLATED) as out:
        for path, data in files.items():
            entry = zipfile.ZipInfo(path, (1980, 1, 1, 0, 0, 0))
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            out.writestr(entry, data)
    return wheel


if __name__ == "__main__":
    print(build_wheel(sys.argv[1]))
