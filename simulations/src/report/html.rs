//! The page: nothing on it comes from elsewhere.

use std::fmt::Write as _;

use super::{Report, Scenario, plot, ratio};
use crate::figures::percentile;
use crate::marks::Mark;

const STYLE: &str = "body{font:15px/1.45 system-ui,sans-serif;max-width:960px;margin:24px auto;padding:0 16px;color:#222}\
table{border-collapse:collapse;margin:10px 0}td,th{border:1px solid #ddd;padding:3px 9px;text-align:right}\
td:first-child,th:first-child{text-align:left}th{background:#f5f5f5}.bad{color:#b00020;font-weight:600}\
.good{color:#22744d;font-weight:600}code{font-size:13px;background:#f5f5f5;padding:1px 4px}\
svg text{font:12px system-ui,sans-serif;fill:#333}svg .small{font-size:10.5px}svg .tick{text-anchor:middle}\
svg .leader{fill:#555}svg .phase{stroke:#999;stroke-dasharray:3 3}svg .axis{stroke:#888}\
svg .fault{fill:#f4c9c9;stroke:#d1495b}svg .shade{fill:#d1495b;opacity:.07}\
svg .curve{fill:none;stroke:#2b6cb0;stroke-width:1.6}.key span{display:inline-block;margin-right:14px}\
.key i{display:inline-block;width:11px;height:11px;margin-right:5px}h2{margin-top:38px;border-bottom:1px solid #ddd}";

/// The whole page, beside `old` where there is one.
pub(super) fn page(report: &Report, old: Option<&Report>) -> String {
    let mut page = format!(
        "<!doctype html><html lang='en'><meta charset='utf-8'><title>Simulated failures</title>\
         <style>{STYLE}</style><h1>Simulated failures</h1>\
         <p>Commit <code>{}</code>, made by <code>simulations {}</code>; load of the machine: {}.</p>",
        escape(&report.commit),
        escape(&report.command),
        escape(&report.load),
    );
    if let Some(old) = old {
        let _infallible = write!(
            page,
            "<p>Compared with commit <code>{}</code>: old figures in brackets.</p>",
            escape(&old.commit)
        );
    }
    page += &overview(report, old);
    page += &coverage(report);
    for (name, scenario) in &report.scenarios {
        page += &one(name, scenario, old.and_then(|old| old.scenarios.get(name)));
    }
    page + "</html>\n"
}

fn overview(report: &Report, old: Option<&Report>) -> String {
    let mut rows = String::from(
        "<table><tr><th>scenario<th>seeds<th>runs<th>failed<th>simulated s<th>per CPU-s<th>sustained calls failed\
         <th>overspent<th>ledger error</tr>",
    );
    for (name, scenario) in &report.scenarios {
        let before = old.and_then(|old| old.scenarios.get(name));
        let (well, failed) = scenario.figures.sustained;
        let class = if scenario.failed == 0 { "good" } else { "bad" };
        let _infallible = write!(
            rows,
            "<tr><td><a href='#{name}'>{name}</a><td>{}–{}<td>{}<td class='{class}'>{}{}<td>{:.0}<td>{:.0}{}\
             <td>{failed} of {}{}<td>{}<td>{}</tr>",
            scenario.seeds.0,
            scenario.seeds.1,
            scenario.runs,
            scenario.failed,
            was(before, |old| old.failed.to_string()),
            ratio(scenario.simulated_ms, 1_000),
            scenario.speed(),
            was(before, |old| format!("{:.0}", old.speed())),
            well + failed,
            was(before, |old| format!(
                "{} of {}",
                old.figures.sustained.1,
                old.figures.sustained.0 + old.figures.sustained.1
            )),
            scenario.figures.overspent,
            scenario.figures.ledger_error,
        );
    }
    rows + "</table><p>Overspent and ledger error are in nano-dollars, the worst of all runs.</p>"
}

fn coverage(report: &Report) -> String {
    let mut text = String::from("<h2>Coverage</h2><table><tr><th>must happen sometimes<th>runs</tr>");
    for mark in Mark::ALL {
        let count: u64 = report.scenarios.values().filter_map(|scenario| scenario.marks.get(mark)).sum();
        let class = if count == 0 { " class='bad'" } else { "" };
        let _infallible = write!(text, "<tr><td>{mark:?}<td{class}>{count}</tr>");
    }
    text += "</table><table><tr><th>fault<th>struck<th>noticed by somebody</tr>";
    let mut sums = crate::figures::Figures::default();
    for scenario in report.scenarios.values() {
        sums.add(&scenario.figures);
    }
    for (kind, (struck, bit)) in sums.faults {
        let class = if bit == 0 { " class='bad'" } else { "" };
        let _infallible = write!(text, "<tr><td>{kind}<td>{struck}<td{class}>{bit}</tr>");
    }
    text + "</table>"
}

fn one(name: &str, scenario: &Scenario, old: Option<&Scenario>) -> String {
    let mut text = format!("<h2 id='{name}'>{name}</h2><p>{}</p>", escape(&scenario.about));
    for short in scenario.short_of() {
        let _infallible = write!(text, "<p class='bad'>{}</p>", escape(&short));
    }
    for (seed, said) in &scenario.failures {
        let _infallible = write!(
            text,
            "<p class='bad'>Seed {seed}: {}</p><p><code>cargo run --profile sim -p simulations -- replay \
             simulations/scenarios/{name}.toml --seed {seed}</code></p>",
            escape(&said.join("; ").chars().take(700).collect::<String>()),
        );
    }
    if let Some(drawn) = &scenario.drawn {
        let _infallible = write!(text, "<h3>Seed {}</h3><p class='key'>", drawn.seed);
        for (how, colour) in plot::OUTCOMES {
            let _infallible = write!(text, "<span><i style='background:{colour}'></i>{how}</span>");
        }
        text += "</p>";
        text += &plot::timeline(drawn);
    }
    text += "<table><tr><th>calls<th>all runs</tr>";
    for (how, count) in &scenario.calls {
        let _infallible = write!(
            text,
            "<tr><td>{how}<td>{count}{}</tr>",
            was(old, |old| old.calls.get(how).unwrap_or(&0).to_string())
        );
    }
    text += "</table>";
    for (what, times, before) in times(scenario, old) {
        if times.is_empty() {
            continue;
        }
        let _infallible = write!(
            text,
            "<h3>{}</h3><p>{}{}, of {}</p>{}",
            escape(&what),
            shares(times),
            before
                .filter(|old| !old.is_empty())
                .map_or_else(String::new, |old| format!(" ({})", shares(old))),
            times.len(),
            plot::distribution(&what, times),
        );
    }
    text
}

/// A distribution's name, its times, and those of before.
type Named<'a> = (String, &'a [u64], Option<&'a [u64]>);
/// Takes times out of a scenario's figures.
type Part = fn(&Scenario) -> &Vec<u64>;

/// All distributions of a scenario by name, with those of before.
fn times<'a>(scenario: &'a Scenario, old: Option<&'a Scenario>) -> Vec<Named<'a>> {
    let part = |of: Part| (of(scenario).as_slice(), old.map(|old| of(old).as_slice()));
    let mut all = Vec::new();
    let named: [(&str, Part); 6] = [
        ("leader lost → another leads", |of| &of.figures.led_again),
        ("leader lost → next acknowledged change", |of| &of.figures.next_write),
        ("leader lost → a change under way came back", |of| &of.figures.hung_write),
        ("region lost → its new calls: asked → first byte elsewhere", |of| &of.figures.served_elsewhere),
        ("sustained regions: asked → first byte", |of| &of.figures.sustained_first_byte),
        ("last heal → whole again", |of| &of.figures.whole_again),
    ];
    for (name, of) in named {
        let (now, before) = part(of);
        all.push((name.to_owned(), now, before));
    }
    for (region, times) in &scenario.figures.recovered {
        let before = old.and_then(|old| old.figures.recovered.get(region)).map(Vec::as_slice);
        all.push((format!("{region} lost → last call that began and was not served"), times, before));
    }
    all
}

/// The usual shares of some times.
fn shares(times: &[u64]) -> String {
    let at = |share| percentile(times, share).unwrap_or(0);
    format!("p50 {} ms, p90 {} ms, p99 {} ms, max {} ms", at(50), at(90), at(99), at(100))
}

fn was(old: Option<&Scenario>, of: impl Fn(&Scenario) -> String) -> String {
    old.map_or_else(String::new, |old| format!(" ({})", of(old)))
}

/// Text that means nothing to a browser.
pub(super) fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('\'', "&#39;")
        .replace('"', "&quot;")
}
