"""Colours and the style sheet, for light and dark screens and for paper."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

# The series are told apart by readers of every colour vision, and each has a contrast of
# at least 4.5 with its card, so that words may be set in it.
_LIGHT: Mapping[str, str] = MappingProxyType(
    {
        "paper": "#f6f7f9",
        "card": "#ffffff",
        "ink": "#1c2430",
        "muted": "#596474",
        "rule": "#dfe4ea",
        "accent": "#0b6299",
        "tint": "#e8f2f9",
        "shade": "#d3dae2",
        "series-1": "#0072b2",
        "series-2": "#b84a00",
        "series-3": "#00785a",
        "series-4": "#a03d80",
        "series-5": "#866000",
        "series-6": "#4b5563",
    }
)
_DARK: Mapping[str, str] = MappingProxyType(
    {
        "paper": "#11151b",
        "card": "#1a2029",
        "ink": "#e7ebf0",
        "muted": "#9ba7b6",
        "rule": "#303a47",
        "accent": "#6fb9e8",
        "tint": "#1b3345",
        "shade": "#0b0e13",
        "series-1": "#5fb4ea",
        "series-2": "#f59a56",
        "series-3": "#3fc79c",
        "series-4": "#e291c2",
        "series-5": "#e3b84e",
        "series-6": "#b7c0cc",
    }
)
N_SERIES_COLOURS = 6


def colour(name: str) -> str:
    """A colour of the page, with its light form for pages that do not define it.

    >>> colour("card")
    'var(--card,#ffffff)'
    """
    return f"var(--{name},{_LIGHT[name]})"


def series_colour(index: int) -> str:
    """The colour of the series with this index; after the last the first comes again."""
    return colour(f"series-{index % N_SERIES_COLOURS + 1}")


def style_sheet() -> str:
    """The style sheet of a page."""
    return f"{colour_rules()}{_RULES}"


def colour_rules() -> str:
    """The colours alone, as a drawing in a file of its own needs them."""
    return (
        f":root{{color-scheme:light dark;{_definitions(_LIGHT)}}}"
        f"@media screen and (prefers-color-scheme:dark){{:root{{{_definitions(_DARK)}}}}}"
    )


def _definitions(colours: Mapping[str, str]) -> str:
    return "".join(f"--{name}:{value};" for name, value in colours.items())


_RULES = """
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%;text-size-adjust:100%}
body{margin:0;background:var(--paper);color:var(--ink);overflow-wrap:break-word;
  font:1rem/1.55 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif}
body>*{max-width:72rem;margin-inline:auto;padding-inline:clamp(1rem,4vw,2.5rem)}
h1,h2,h3,h4{line-height:1.2;text-wrap:balance;margin:0}
h1{font-size:clamp(1.6rem,1.2rem + 2vw,2.4rem);letter-spacing:-.02em}
h2{font-size:1.35rem;letter-spacing:-.01em}
h3{font-size:1.05rem}
h4{font-size:.8rem;letter-spacing:.02em;color:var(--muted)}
p{margin:0;max-width:44rem}
a{color:var(--accent)}
:focus-visible{outline:2px solid var(--accent);outline-offset:2px}
header{padding-block:clamp(1.75rem,5vw,3.5rem) .5rem}
header .lead{margin-top:.75rem;font-size:1.1rem;color:var(--muted)}
nav ul{display:flex;flex-wrap:wrap;gap:.25rem 1.25rem;margin:1.1rem 0 0;padding:0;list-style:none;
  font-size:.9rem}
nav li{min-width:0;overflow-wrap:anywhere}
nav a{display:inline-block;padding-block:.3rem;text-decoration:none}
nav a:hover{text-decoration:underline}
section{padding-top:2.25rem;scroll-margin-top:.5rem}
footer{padding-block:2.5rem;font-size:.85rem;color:var(--muted)}
figure{margin:0}
figcaption,caption{font-size:.9rem;color:var(--muted)}
figcaption{margin-top:.5rem;max-width:44rem}
.chart{display:block;width:100%;max-width:36rem;height:auto}
.columns{display:grid;gap:1rem;grid-template-columns:repeat(auto-fit,minmax(min(100%,var(--least,20rem)),1fr))}
.columns>*{margin:0;min-width:0}
.card{background:var(--card);border:1px solid var(--rule);border-radius:.6rem;
  padding:clamp(.9rem,2.5vw,1.35rem)}
.scroll{position:relative;overflow-x:auto;container-type:inline-size;
  background:linear-gradient(90deg,var(--card) 30%,transparent) 0/2.5rem 100% local no-repeat,
  linear-gradient(270deg,var(--card) 30%,transparent) 100%/2.5rem 100% local no-repeat,
  linear-gradient(90deg,var(--shade),transparent) 0/.8rem 100% no-repeat,
  linear-gradient(270deg,var(--shade),transparent) 100%/.8rem 100% no-repeat}
table{width:100%;border-collapse:collapse;font-variant-numeric:tabular-nums}
caption{text-align:left;padding-bottom:.6rem}
caption span{display:inline-block;position:sticky;left:0;max-width:min(44rem,100cqw)}
th,td{padding:.5rem .75rem;text-align:left;vertical-align:top;border-top:1px solid var(--rule)}
th:first-child{padding-left:0}
th:last-child,td:last-child{padding-right:.4rem}
thead th{border-top:0;border-bottom:1px solid var(--muted);font-size:.85em;color:var(--muted);
  vertical-align:bottom}
tbody tr:first-child>*{border-top:0}
tbody th{font-weight:500;min-width:6.5rem}
.number{text-align:right;white-space:nowrap}
.best .value{font-weight:700;color:var(--accent)}
.interval{display:block;font-size:.8em;color:var(--muted)}
.unseen{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);white-space:nowrap}
dl{display:flex;flex-wrap:wrap;gap:1px;margin:0;
  background:var(--rule);border:1px solid var(--rule);border-radius:.6rem;overflow:hidden}
dl>div{flex:1 1 8.5rem;min-width:0;overflow-wrap:anywhere;background:var(--card);padding:.8rem 1rem}
dt{font-size:.85rem;color:var(--muted)}
dd{margin:.1rem 0 0;font-size:1.3rem;font-weight:600;letter-spacing:-.01em;
  font-variant-numeric:tabular-nums}
.listing ol,.listing ul{margin:.35rem 0 0;padding:0;list-style:none;counter-reset:rank}
.listing li{display:flex;gap:.6rem;align-items:baseline;padding:.3rem 0;
  border-top:1px solid var(--rule)}
.listing li:first-child{border-top:0}
.listing ol>li::before{counter-increment:rank;content:counter(rank);flex:none;width:1.2rem;
  text-align:right;font-size:.85rem;color:var(--muted);font-variant-numeric:tabular-nums}
.listing .what{flex:1;min-width:0}
.listing .note{flex:none;font-size:.85rem;color:var(--muted);font-variant-numeric:tabular-nums}
.badge{display:inline-block;padding:0 .45rem;border-radius:1rem;font-size:.75rem;
  line-height:1.5;background:var(--tint);color:var(--accent);white-space:nowrap}
dl.facts{display:block;background:var(--card)}
dl.facts>div{display:grid;grid-template-columns:minmax(5.5rem,9rem) minmax(0,1fr);gap:1rem;
  padding:.4rem 1rem}
dl.facts>div+div{border-top:1px solid var(--rule)}
dl.facts dt,dl.facts dd{margin:0;font-size:.9rem;overflow-wrap:anywhere}
dl.facts dd{font-weight:400;letter-spacing:0}
summary{cursor:pointer;font-size:.85rem;color:var(--accent);padding-block:.3rem}
details .scroll{max-height:24rem;overflow:auto;margin-top:.35rem;font-size:.85rem}
details th,details td{padding-block:.2rem}
.figures{font-size:.8125rem;line-height:1.45}
.figures th,.figures td{padding:.4rem .55rem}
.figures tbody th{position:sticky;left:0;z-index:1;background:var(--card);min-width:5.5rem;
  max-width:12rem;padding-left:0;overflow-wrap:anywhere}
.figures thead th{font-size:inherit;line-height:1.3}
.figures thead td{border-top:0;border-bottom:1px solid var(--muted);padding-left:0;
  color:var(--muted);vertical-align:bottom}
.figure{display:grid;grid-template-columns:var(--digits,auto) 1fr;column-gap:.3rem;
  justify-items:start;white-space:nowrap}
.figure .value{grid-area:1/1;justify-self:end}
.figure .spread{grid-area:1/2}
.figure .words{grid-area:1/1/auto/-1}
.figure .published{grid-area:2/1;justify-self:end}
.figure .difference{grid-area:2/2}
.figure .spread,.figure .published,.figure .words,.difference.neither{color:var(--muted)}
.figure .spread,.figure .words{position:relative}
.figure sup{position:absolute;left:100%;top:.1em;padding-left:.1em}
.better{color:var(--series-1)}
.worse{color:var(--series-2)}
sup{line-height:1;font-size:.85em}
sup a{text-decoration:none}
.notes{font-size:.85rem;color:var(--muted);max-width:60rem}
.notes p,.notes li{max-width:none}
.notes ol{list-style:none;margin:.4rem 0 0;padding:0}
.notes li{padding-left:1.2rem;text-indent:-1.2rem}
.remarks ul{margin:.4rem 0 0;padding-left:1.2rem}
.remarks li{max-width:52rem;padding-block:.15rem;break-inside:avoid}
.remarks.many ul{columns:26rem;column-gap:2.5rem;font-size:.875rem}
section>*+*,.card>*+*{margin-top:1rem}
@page{margin:16mm}
@media print{
  body{background:none;font-size:10.5pt}
  body>*{max-width:none;padding-inline:0}
  nav{display:none}
  h2,h3,h4{break-after:avoid}
  .card,figure,tr,dl,.listing{break-inside:avoid}
  .scroll{overflow:visible;background:none}
  table{font-size:.85em}
  th,td{padding-inline:.35rem}
  .columns[style]{--least:18rem!important}
  .figures{font-size:6.6pt}
  .figures th,.figures td{padding:.2rem}
  .figures tbody th{min-width:0}
  details{display:none}
  *{print-color-adjust:exact}
}
"""
