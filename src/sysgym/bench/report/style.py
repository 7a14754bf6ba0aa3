"""The page's style sheet; it stands in the page, which loads nothing."""

CSS = """
:root { color-scheme: light dark; --ink: #1c1e21; --soft: #5d646d; --paper: #ffffff; --line:
  #dfe3e8; --best: #e2f2e9; --tied: #f1f8f4; --warn: #fff4d6; --link: #0059a8; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e6e9; --soft: #9aa3ad; --paper: #15181c;
  --line: #31373e; --best: #173a2a; --tied: #182820; --warn: #3d3214; --link: #6db3f2; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 2rem 1.5rem 5rem; max-width: 80rem; color: var(--ink); background:
  var(--paper); font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
h1 { font-size: 1.7rem; line-height: 1.25; margin: 0 0 .4rem; }
h2 { font-size: 1.3rem; margin: 3rem 0 .4rem; padding-top: 1rem; border-top: 1px solid var(--line);
  }
h3 { font-size: 1rem; margin: 1.6rem 0 .3rem; }
p { max-width: 48rem; margin: .5rem 0; }
a { color: var(--link); }
.soft, figcaption, .tie { color: var(--soft); }
.warn { background: var(--warn); padding: .6rem .9rem; border-radius: 6px; max-width: none; }
ul.headlines { list-style: none; padding: 0; margin: 1rem 0; }
ul.headlines li { padding: .7rem 0; border-bottom: 1px solid var(--line); max-width: 60rem; }
ul.headlines b { display: block; }
.scroll { overflow-x: auto; margin: .8rem 0; }
table { border-collapse: collapse; font-size: .875rem; font-variant-numeric: tabular-nums; }
th, td { padding: .35rem .55rem; text-align: right; border-bottom: 1px solid var(--line);
  vertical-align: top; }
th { font-weight: 600; line-height: 1.3; vertical-align: bottom; }
th:first-child, td:first-child { text-align: left; white-space: nowrap; position: sticky; left: 0;
  background: var(--paper); }
thead th small { display: block; font-weight: 400; color: var(--soft); white-space: nowrap; }
td small { display: block; color: var(--soft); white-space: nowrap; }
td.best { background: var(--best); } td.best > span { font-weight: 700; }
td.tied { background: var(--tied); }
tr.bound td { border-top: 2px solid var(--soft); }
td.left, th.left { text-align: left; }
.key { display: inline-block; width: .75em; height: .75em; border-radius: 50%; margin-right: .5em;
  border: 2px solid; }
figure { margin: 1.2rem 0; } figure svg { width: 100%; height: auto; display: block; }
figcaption { font-size: .875rem; max-width: 48rem; }
details summary { cursor: pointer; color: var(--link); }
code { font-size: .9em; overflow-wrap: anywhere; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .3rem 1.2rem; } dt { color:
  var(--soft); } dd { margin: 0; }
"""
