//! The page: nothing on it comes from elsewhere.

use std::fmt::Write as _;

use super::{Processes, Report, Scenario, plot, ratio};
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
    let title = if is_real(report) { "Failures of real processes" } else { "Simulated failures" };
    let mut page = format!(
        "<!doctype html><html lang='en'><meta charset='utf-8'><title>{title}</title>\
         <style>{STYLE}</style><h1>{title}</h1>\
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

fn is_real(report: &Report) -> bool {
    report.scenarios.values().any(|scenario| scenario.real.is_some())
}

fn overview(report: &Report, old: Option<&Report>) -> String {
    let time = if is_real(report) { "<th>s" } else { "<th>simulated s<th>per CPU-s" };
    let mut rows = format!(
        "<table><tr><th>scenario<th>seeds<th>runs<th>failed{time}<th>sustained calls failed<th>overspent\
         <th>ledger error</tr>",
    );
    for (name, scenario) in &report.scenarios {
        let before = old.and_then(|old| old.scenarios.get(name));
        let (well, failed) = scenario.figures.sustained;
        let class = if scenario.failed == 0 { "good" } else { "bad" };
        let speed = if scenario.real.is_some() {
            String::new()
        } else {
            format!("<td>{:.0}{}", scenario.speed(), was(before, |old| format!("{:.0}", old.speed())))
        };
        let _infallible = write!(
            rows,
            "<tr><td><a href='#{name}'>{name}</a><td>{}–{}<td>{}<td class='{class}'>{}{}<td>{:.0}{speed}\
             <td>{failed} of {}{}<td>{}<td>{}</tr>",
            scenario.seeds.0,
            scenario.seeds.1,
            scenario.runs,
            scenario.failed,
            was(before, |old| old.failed.to_string()),
            ratio(scenario.simulated_ms, 1_000),
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
    text += &scenario.real.as_ref().map_or_else(String::new, processes);
    let again = if scenario.real.is_some() {
        "-p simulations -- real"
    } else {
        "--profile sim -p simulations -- replay"
    };
    for (seed, said) in &scenario.failures {
        let _infallible = write!(
            text,
            "<p class='bad'>Seed {seed}: {}</p><p><code>cargo run {again} simulations/scenarios/{name}.toml \
             --seed {seed}</code></p>",
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
    for (whose, (well, failed)) in scenario.figures.shares() {
        let _infallible = write!(text, "<p>{whose}: {failed} of {} calls failed</p>", well + failed);
    }
    let old = old.map_or_else(Vec::new, |old| old.figures.times());
    for (what, times) in scenario.figures.times() {
        let before = old.iter().find(|(name, _)| *name == what);
        let _infallible = write!(
            text,
            "<h3>{}</h3><p>{}{}, of {}</p>{}",
            escape(&what),
            shares(times),
            before.map_or_else(String::new, |(_, old)| format!(" ({})", shares(old))),
            times.len(),
            plot::distribution(&what, times),
        );
    }
    text
}

/// What is said of runs with real processes alone.
fn processes(of: &Processes) -> String {
    let mut text = String::new();
    if of.void > 0 {
        let _infallible = write!(
            text,
            "<p class='bad'>{} void: packets left the link emulator more than 5 ms late at the 99th percentile, so \
             that they say nothing</p>",
            of.void
        );
    }
    text +=
        "<table><tr><th>links of seed<th>packets<th>dropped<th>late, p50<th>p99<th>p99.9<th>real-time</tr>";
    for (seed, links) in &of.links {
        let _infallible = write!(
            text,
            "<tr><td>{seed}<td>{}<td>{}<td>{} µs<td>{} µs<td>{} µs<td>{}</tr>",
            links.packets,
            links.dropped,
            links.late_p50_us,
            links.late_p99_us,
            links.late_p999_us,
            if links.real_time { "yes" } else { "no" },
        );
    }
    text += "</table><ul>";
    for skipped in &of.skipped {
        let _infallible = write!(text, "<li>skipped: {}", escape(skipped));
    }
    text + "</ul>"
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
