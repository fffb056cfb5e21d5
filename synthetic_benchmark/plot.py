"""plot.py: a page of charts as SVG, for bench.py."""
import html
import math

INK, FAINT = "#222", "#ddd"
COLOURS = ["#1b6ca8", "#d1495b", "#2a9d8f", "#e9a23b", "#6a4c93", "#777777"]
WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 520, 300, 60, 60, 40


class Page:
    def __init__(self, title):
        self.title, self.charts = title, []

    def _frame(self, title):
        parts = [f'<text x="{LEFT}" y="22" font-size="14" font-weight="bold" fill="{INK}">{html.escape(title)}</text>']
        return parts

    def lines(self, title, unit, series, ticks):
        """series: {name: [(x, y)]}, both axes logarithmic; ticks: [(x, text)]."""
        points = [p for s in series.values() for p in s if p[1] > 0]
        if not points:
            return
        low = math.floor(math.log10(min(y for _, y in points)))
        high = math.ceil(math.log10(max(y for _, y in points)) + 1e-9)
        high = max(high, low + 1)
        left, right = math.log10(min(x for x, _ in points)), math.log10(max(x for x, _ in points))

        def at(x, y):
            across = (math.log10(x) - left) / max(right - left, 1e-9)
            up = (math.log10(y) - low) / (high - low)
            return LEFT + across * (WIDTH - LEFT - 20), HEIGHT - BOTTOM - up * (HEIGHT - BOTTOM - TOP)

        parts = self._frame(f"{title} ({unit})")
        for decade in range(low, high + 1):
            y = at(10 ** left, 10 ** decade)[1]
            parts.append(f'<line x1="{LEFT}" x2="{WIDTH - 20}" y1="{y:.1f}" y2="{y:.1f}" stroke="{FAINT}"/>'
                         f'<text x="{LEFT - 6}" y="{y + 4:.1f}" font-size="11" '
                         f'text-anchor="end">{10 ** decade:g}</text>')
        for x, text in ticks:
            if left - 1e-9 <= math.log10(x) <= right + 1e-9:
                parts.append(f'<text x="{at(x, 10 ** low)[0]:.1f}" y="{HEIGHT - BOTTOM + 16}" font-size="11" '
                             f'text-anchor="middle">{html.escape(text)}</text>')
        for number, (name, line) in enumerate(series.items()):
            colour = COLOURS[number % len(COLOURS)]
            path = " ".join("%.1f,%.1f" % at(x, y) for x, y in line if y > 0)
            parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
            parts += [f'<circle cx="{at(x, y)[0]:.1f}" cy="{at(x, y)[1]:.1f}" r="2.5" fill="{colour}"/>' for x,
                      y in line if y > 0]
            column, row = number % 3, number // 3
            parts.append(f'<rect x="{LEFT + column * 150}" y="{HEIGHT - 38 + row * 15}" width="10" '
                         f'height="10" fill="{colour}"/>'
                         f'<text x="{LEFT + column * 150 + 14}" y="{HEIGHT - 29 + row * 15}" '
                         f'font-size="11">{html.escape(name)}</text>')
        self.charts.append("".join(parts))

    def bars(self, title, unit, values):
        """values: [(name, number)]; one horizontal bar each, linear from 0."""
        values = [(n, v) for n, v in values if v is not None]
        if not values:
            return
        step, most = min(30.0, (HEIGHT - TOP - 10) / len(values)), max(v for _, v in values) or 1
        parts = self._frame(f"{title} ({unit})")
        for number, (name, value) in enumerate(values):
            y = TOP + number * step
            parts.append(f'<text x="{LEFT + 100}" y="{y + step * .65:.1f}" font-size="11" '
                         f'text-anchor="end">{html.escape(name)}</text>'
                         f'<rect x="{LEFT + 106}" y="{y + 2:.1f}" width="{(WIDTH - LEFT - 220) * value / most:.1f}" '
                         f'height="{step - 5:.1f}" fill="{COLOURS[number % 2]}"/>'
                         f'<text x="{LEFT + 112 + (WIDTH - LEFT - 220) * value / most:.1f}" y="{y + step * .65:.1f}" '
                         f'font-size="11">{value:.4g}</text>')
        self.charts.append("".join(parts))

    def write(self, path):
        rows = (len(self.charts) + 1) // 2
        with open(path, "w") as file:
            file.write(f'<svg xmlns="http://www.w3.org/2000/svg" width="{2 * WIDTH}" height="{rows * HEIGHT + 40}" '
                       f'font-family="sans-serif">'
                       f'<rect width="100%" height="100%" fill="white"/><text x="20" y="26" '
                       f'font-size="15">{html.escape(self.title)}</text>')
            for number, chart in enumerate(self.charts):
                file.write(f'<g transform="translate({number % 2 * WIDTH},{number // 2 * HEIGHT + 40})">{chart}</g>')
            file.write("</svg>\n")
