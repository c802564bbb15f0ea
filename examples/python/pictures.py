"""Makes the three pictures of README.md: pictures.py [DIRECTORY]. Data made up here; needs pu and numpy alone.

Colours follow the reader's light or dark page, as in examples/common/svg.h.
"""

from __future__ import annotations

import base64
import struct
import sys
import zlib
from pathlib import Path
from typing import List, Sequence

import numpy as np
import pu

STYLE = (
    ":root{--ink:#222;--paper:#fff;--soft:#555;--rule:#ddd;--axis:#888;--c0:#8a5fbf;--c1:#c2570c;--c2:#0b6bb8}\n"
    "@media (prefers-color-scheme:dark){:root{--ink:#ddd;--paper:#16181c;--soft:#aaa;--rule:#33373d;--axis:#777;"
    "--c0:#bb9af0;--c1:#f0964e;--c2:#62b0f5}}\n"
    "svg{font:15px system-ui,sans-serif;fill:var(--ink);background:var(--paper)}\n"
    ".c0{color:var(--c0)}.c1{color:var(--c1)}.c2{color:var(--c2)}.note{fill:var(--soft)}\n"
    ".grid{stroke:var(--rule)}.axis{stroke:var(--axis);fill:none}.line{stroke:currentColor;stroke-width:2;fill:none}\n"
    ".dot,.band{fill:currentColor}.band{opacity:.22}.thin{stroke:currentColor;stroke-width:1.5}\n"
)


class Plot:
    """A frame with linear axes; methods add to it in data coordinates."""

    def __init__(self, title: str, x: Sequence[float], y: Sequence[float], width: int = 640, height: int = 330, left: int = 60) -> None:
        self.title, self.x, self.y = title, x, y
        self.width, self.height = width, height
        self.left, self.right, self.top, self.bottom = left, width - 16, 44, height - 52
        self.parts: List[str] = []

    def at_x(self, x: float) -> float:
        return self.left + (self.right - self.left) * (x - self.x[0]) / (self.x[1] - self.x[0])

    def at_y(self, y: float) -> float:
        return self.bottom - (self.bottom - self.top) * (y - self.y[0]) / (self.y[1] - self.y[0])

    def points(self, x: Sequence[float], y: Sequence[float]) -> str:
        return " ".join(f"{self.at_x(a):.1f},{self.at_y(b):.1f}" for a, b in zip(x, y))

    def line(self, x: Sequence[float], y: Sequence[float], colour: str) -> None:
        self.parts.append(f'<polyline class="line {colour}" points="{self.points(x, y)}"/>')

    def band(self, x: Sequence[float], low: Sequence[float], high: Sequence[float], colour: str) -> None:
        around = self.points(x, low) + " " + self.points(x[::-1], high[::-1])
        self.parts.append(f'<polygon class="band {colour}" points="{around}"/>')

    def dots(self, x: Sequence[float], y: Sequence[float], colour: str, radius: float = 2.5) -> None:
        for a, b in zip(x, y):
            self.parts.append(f'<circle class="dot {colour}" cx="{self.at_x(a):.1f}" cy="{self.at_y(b):.1f}" r="{radius}"/>')

    def segment(self, x0: float, y0: float, x1: float, y1: float, colour: str) -> None:
        where = f"M{self.at_x(x0):.1f} {self.at_y(y0):.1f}L{self.at_x(x1):.1f} {self.at_y(y1):.1f}"
        self.parts.append(f'<path class="thin {colour}" d="{where}"/>')

    def text(self, x: float, y: float, text: str, anchor: str = "middle", kind: str = "") -> None:
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{kind}>{text}</text>')

    def axes(self, x_ticks: Sequence[float], y_ticks: Sequence[float], x_label: str, y_label: str) -> None:
        for tick in y_ticks:
            self.parts.append(f'<path class="grid" d="M{self.left} {self.at_y(tick):.1f}H{self.right}"/>')
            self.text(self.left - 6, self.at_y(tick) + 5, f"{tick:g}", "end")
        for tick in x_ticks:
            self.parts.append(f'<path class="axis" d="M{self.at_x(tick):.1f} {self.bottom}v5"/>')
            self.text(self.at_x(tick), self.bottom + 20, f"{tick:g}")
        self.text((self.left + self.right) / 2, self.bottom + 42, x_label)
        self.text(self.left, self.top - 8, y_label, "start", ' class="note"')
        self.parts.append(f'<path class="axis" d="M{self.left} {self.top}V{self.bottom}H{self.right}"/>')

    def write(self, path: Path) -> None:
        head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" width="{self.width}" role="img">'
        body = "\n".join(self.parts)
        title = f'<title>{self.title}</title>\n<text x="{self.left}" y="18" font-weight="600">{self.title}</text>'
        path.write_text(f"{head}\n<style>{STYLE}</style>\n{title}\n{body}\n</svg>\n", encoding="utf-8")


def forecast(path: Path) -> None:
    """Monthly sales with a gap, their level, and two years ahead."""
    rng = np.random.default_rng(11)
    months = np.arange(96)
    y = 50 + 0.35 * months + 9 * np.sin(months * np.pi / 6) + rng.normal(size=96).cumsum() + 2 * rng.normal(size=96)
    y[40:47] = np.nan
    fit = pu.fit(pu.structural("level slope! season:12"), y)
    ahead = fit.predict(np.append(y, np.full(24, np.nan)))
    low, high = ahead.interval(0.95)
    t = np.arange(120)
    plot = Plot("Sales with a gap, and two years ahead", (0, 119), (30, 120))
    plot.axes(range(0, 120, 12), range(40, 121, 20), "month", "sales")
    for part in (slice(39, 48), slice(95, 120)):
        plot.band(t[part], low[part], high[part], "c2")
    plot.line(t, ahead.mean, "c2")
    plot.dots(months[~np.isnan(y)], y[~np.isnan(y)], "c1")
    plot.text(plot.at_x(108), plot.at_y(34), "forecast, 95 %", kind=' class="note"')
    plot.text(plot.at_x(43.5), plot.at_y(38), "gap", kind=' class="note"')
    plot.write(path)


def grey(values: np.ndarray, low: float, high: float) -> str:
    """A picture of numbers as a PNG within an SVG; NaN is transparent."""
    shade = np.clip((values - low) / (high - low), 0, 1)
    level = np.where(np.isnan(values), 0, np.round(255 * np.nan_to_num(shade))).astype(np.uint8)
    alpha = np.where(np.isnan(values), 0, 255).astype(np.uint8)
    rows = np.stack([level, alpha], axis=-1).reshape(len(values), -1)
    raw = b"".join(b"\0" + row.tobytes() for row in rows)

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    size = struct.pack(">IIBBBBB", values.shape[1], values.shape[0], 8, 4, 0, 0, 0)
    png = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", size) + chunk(b"IDAT", zlib.compress(raw, 9)) + chunk(b"IEND", b"")
    return "data:image/png;base64," + base64.b64encode(png).decode()


def hole(path: Path) -> None:
    """A noisy field with holes: what was seen, what the model says, how sure it is."""
    n = 40
    a, b = np.meshgrid(np.arange(n), np.arange(n), indexing="ij")
    truth = np.sin(a / 5.0) + np.cos(b / 6.5 + a / 14.0)
    seen = truth + 0.25 * np.random.default_rng(5).normal(size=(n, n))
    seen[9:18, 22:31] = np.nan
    seen[np.random.default_rng(6).random((n, n)) < 0.3] = np.nan
    fit = pu.fit(pu.field(), seen, kind="exact")
    made = fit.predict()
    most = float(made.fit_sd.max())
    panels = [
        (seen, -2.0, 2.4, "seen; a third and a square are missing"),
        (made.mean, -2.0, 2.4, "the model's mean"),
        (made.fit_sd, 0.0, most, f"standard deviation, black 0, white {most:.2f}"),
    ]
    plot = Plot("A field with holes: seen, filled, and how sure that is", (0, 1), (0, 1), height=270, left=16)
    for i, (values, low, high, name) in enumerate(panels):
        x = 16 + 206 * i
        image = f'<image x="{x}" y="36" width="196" height="196" style="image-rendering:pixelated" href="{grey(values, low, high)}"/>'
        plot.parts.append(f'<rect class="band c1" x="{x}" y="36" width="196" height="196"/>')
        plot.parts.append(image)
        plot.parts.append(f'<rect class="axis" x="{x}" y="36" width="196" height="196"/>')
        plot.text(x + 98, 254, name, kind=' font-size="11"')
    plot.write(path)


def schools(path: Path) -> None:
    """Effects of schools with few and many pupils: the fewer, the nearer to the mean of all."""
    rng = np.random.default_rng(3)
    pupils = np.array([2, 3, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 40, 60])
    school = np.repeat(np.arange(len(pupils)), pupils)
    y = 500 + 30 * rng.normal(size=len(pupils))[school] + 60 * rng.normal(size=len(school))
    fit = pu.fit(pu.effects({"school": school}), y)
    effects = fit.effects()["school"]
    plain = np.array([y[school == s].mean() for s in effects]) - fit.params["b[0]"]
    plot = Plot("Schools: plain means, and effects that know how little is known", (0.3, len(pupils) + 0.7), (-130, 130))
    plot.axes([], range(-100, 101, 50), "pupils of the school", "points above the mean of all")
    for i, (mean, sd) in enumerate(effects.values()):
        plot.segment(i + 1, mean - 1.96 * sd, i + 1, mean + 1.96 * sd, "c2")
        plot.text(plot.at_x(i + 1), plot.bottom + 20, str(pupils[i]))
    places = np.arange(len(pupils)) + 1.0
    plot.dots(places, [mean for mean, _ in effects.values()], "c2", 4.5)
    plot.dots(places, plain, "c1", 3)
    plot.dots([10.6, 10.6], [110, 92], "c1", 3)
    plot.parts[-1] = plot.parts[-1].replace("c1", "c2").replace('r="3"', 'r="4.5"')
    plot.text(plot.at_x(10.9), plot.at_y(110) + 5, "plain mean", "start")
    plot.text(plot.at_x(10.9), plot.at_y(92) + 5, "effect, 95 %", "start")
    plot.write(path)


def main() -> None:
    directory = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent / "pictures")
    directory.mkdir(parents=True, exist_ok=True)
    for make in (forecast, hole, schools):
        make(directory / f"{make.__name__}.svg")
        print(directory / f"{make.__name__}.svg")


if __name__ == "__main__":
    main()
