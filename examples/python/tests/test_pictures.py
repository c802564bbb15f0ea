"""The pictures of README.md: made anew, whole, small, and those that are there."""

import re
import subprocess
import sys
import xml.etree.ElementTree
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent


def test_pictures_are_made():
    subprocess.run([sys.executable, "-W", "error", str(HERE / "pictures.py"), "made"], check=True, capture_output=True)
    shown = re.findall(r"]\((pictures/[a-z]+\.svg)\)", (HERE / "README.md").read_text(encoding="utf-8"))
    made = sorted(Path("made").iterdir())
    assert sorted(Path(name).name for name in shown) == [path.name for path in made] and len(made) == 3
    for path in made:
        kept = (HERE / "pictures" / path.name).read_text(encoding="utf-8")
        new = path.read_text(encoding="utf-8")
        xml.etree.ElementTree.fromstring(new)
        assert 2000 < len(new) < 40000 and "nan" not in new
        # Of another compiler the last digits may differ; what is drawn may not.
        assert re.findall(r"<([a-z]+)", kept) == re.findall(r"<([a-z]+)", new), path
