"""The style of a job's page: on a phone, a desktop, in the dark, and on A4."""

STYLE = """\
:root{--ink:#1c2733;--pale:#5c6b7a;--line:#d9e0e7;--ground:#fff;--soft:#f5f7f9;--good:#1a7f4b;--bad:#c0362c;--open:#0969a8;
--queue:#d4a72c;--prepare:#8250df;color-scheme:light}
@media screen and (prefers-color-scheme:dark){:root{--ink:#e5eaf0;--pale:#9aa8b6;--line:#33404d;--ground:#12181f;--soft:#1a222b;
--good:#2f9e66;--bad:#e5594f;--open:#4a9bd6;--queue:#c99a26;--prepare:#9d78e8;color-scheme:dark}
.picture{filter:invert(.92) hue-rotate(180deg)}}
*{box-sizing:border-box}body{margin:0;background:var(--ground);color:var(--ink);font:15px/1.5 system-ui,sans-serif}
main{max-width:72rem;margin:0 auto;padding:2rem 1.25rem 4rem}h1{font-size:1.6rem;line-height:1.3;margin:0;overflow-wrap:anywhere}
h2{font-size:1.1rem;margin:2.2rem 0 .6rem}p.note{color:var(--pale);margin:.3rem 0}
.state{display:inline-block;padding:.1rem .7rem;
border-radius:1rem;color:#fff;background:var(--open);font-size:1rem;font-weight:600}
.state.good{background:var(--good)}.state.bad{background:var(--bad)}
dl{display:grid;grid-template-columns:max-content minmax(0,1fr);gap:.15rem 1.2rem;margin:1rem 0}
dt{color:var(--pale)}dd{margin:0;overflow-wrap:anywhere}.word{display:inline-block;max-width:100%}
.scroll{overflow-x:auto;max-width:100%}.tall{max-height:30rem;overflow-y:auto}
table{border-collapse:collapse;font-size:.9rem}th{text-align:left;color:var(--pale);font-weight:600}
th,td{padding:.25rem 1rem .25rem 0;border-bottom:1px solid var(--line);vertical-align:top;white-space:nowrap}
.tall th{position:sticky;top:0;background:var(--ground)}
td.long{white-space:normal;min-width:18rem;max-width:34rem;overflow-wrap:anywhere}
.bar{display:inline-block;width:7rem;height:.7rem;margin-right:.5rem;
border-radius:.2rem;background:var(--line);vertical-align:baseline}
.bar i{display:block;height:100%;border-radius:.2rem;background:var(--open)}
svg.curve{width:8rem;height:1.3rem;display:block}
svg.curve path{fill:var(--open);fill-opacity:.25;stroke:var(--open);stroke-width:1.2;
vector-effect:non-scaling-stroke}
pre{background:var(--soft);border:1px solid var(--line);border-radius:.4rem;padding:.7rem .9rem;overflow-x:auto;margin:.4rem 0;
font:13px/1.45 ui-monospace,monospace;white-space:pre-wrap;overflow-wrap:anywhere}summary{cursor:pointer;overflow-wrap:anywhere}
.picture{background:#fff;border:1px solid var(--line);border-radius:.4rem;padding:.5rem}
.picture svg{max-width:100%;height:auto}
.time{display:grid;grid-template-columns:minmax(3.5rem,max-content) minmax(8rem,1fr) max-content;
gap:.2rem .7rem;align-items:center;font-size:.85rem}
.time.many{gap:.1rem .6rem;font-size:.75rem;line-height:1.2}
.time .track{position:relative;height:1rem;background:var(--soft);border-radius:.2rem}.time.many .track{height:.7rem}
.time .track i{position:absolute;top:0;bottom:0;min-width:2px;border-radius:.15rem}
.time .name{overflow-wrap:anywhere;max-width:14rem}.time .lasted{color:var(--pale);white-space:nowrap}
.key{display:flex;flex-wrap:wrap;gap:.2rem 1.2rem;color:var(--pale);font-size:.85rem;margin:.5rem 0}
.key i{display:inline-block;width:.8rem;height:.8rem;border-radius:.15rem;margin-right:.4rem;vertical-align:-.08rem}
i.queue{background:var(--queue)}i.prepare{background:var(--prepare)}i.train{background:var(--good)}i.bad{background:var(--bad)}
i.open{background:var(--open)}
.parts{display:flex;height:1.2rem;border-radius:.3rem;overflow:hidden;background:var(--line)}.parts i{display:block}
footer{margin-top:3rem;color:var(--pale);overflow-wrap:anywhere}
@media screen and (max-width:40rem){main{padding:1.2rem .9rem 3rem}h1{font-size:1.25rem}
dl{grid-template-columns:minmax(0,1fr);gap:0}dd{margin-bottom:.5rem}
.time{grid-template-columns:minmax(0,1fr) max-content;grid-auto-flow:dense}.time .name{max-width:none}
.time .track{grid-column:1/-1}
.time.many{grid-template-columns:minmax(2.5rem,max-content)
 minmax(5rem,1fr) max-content}
.time.many .name{max-width:7rem}.time.many .track{grid-column:auto}
td.long{min-width:14rem}.picture svg{max-width:44rem}}
@page{size:A4;margin:14mm}
@media print{body{font-size:10pt}main{max-width:none;padding:0}.scroll,.tall{overflow:visible;max-height:none}
table{width:100%;font-size:8pt}th,td,td.long{white-space:normal;min-width:0;max-width:none;padding-right:.6rem;overflow-wrap:anywhere}
th{overflow-wrap:normal}
.tall th{position:static}h2,summary{break-after:avoid}tr,.picture,.time>*,dl{break-inside:avoid}.picture svg{max-width:100%}
.bar{width:4.5rem}svg.curve{width:5rem}*{print-color-adjust:exact;-webkit-print-color-adjust:exact}pre{font-size:8pt}}
"""
