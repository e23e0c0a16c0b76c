"""Judge what pip-audit found: known vulnerabilities fail, unless `audit-exceptions.toml` names them with a reason.

python .ci/audit.py found.json
"""

import json
import sys
import tomllib
from pathlib import Path


def main() -> int:
    """The exit status: 1 with a vulnerability that is not excepted, or an exception that nothing needs any more."""
    file, exceptions = Path(sys.argv[1]), tomllib.loads(Path(__file__).with_name("audit-exceptions.toml").read_text())
    if not file.exists():
        print("audit: the database of vulnerabilities could not be reached; no package was looked up")
        return 0
    packages = json.loads(file.read_text())["dependencies"]
    looked_up = [one for one in packages if "skip_reason" not in one]
    found = {vulnerability["id"]: one["name"] for one in looked_up for vulnerability in one["vulns"]}
    wrong = [f"{name}: {one}" for one, name in found.items() if one not in exceptions]
    wrong += [f"{one} is excepted and not found any more" for one in exceptions if looked_up and one not in found]
    wrong += [f"{one} is excepted without a reason" for one, reason in exceptions.items() if not str(reason).strip()]
    print(f"audit: {len(looked_up)} of {len(packages)} packages could be looked up, {len(found)} known vulnerabilities")
    for line in wrong:
        print(line)
    return 1 if wrong else 0


sys.exit(main())
