//! Plots as inline SVG: the timeline of one run, and how times are distributed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::{Timeline, html::escape};
use crate::figures::percentile;

/// Outcomes from the bottom of a bar to its top, with their colours.
pub(super) const OUTCOMES: [(&str, &str); 10] = [
    ("complete", "#3d9970"),
    ("hung up", "#a3c9e2"),
    ("out of budget", "#b9b4c7"),
    ("refused", "#f2c14e"),
    ("failed", "#f08a4b"),
    ("broken", "#d1495b"),
    ("unreachable", "#7b2d43"),
    ("late", "#4a1942"),
    ("open", "#111111"),
    ("wrong", "#ff00ff"),
];

/// How far plots reach, in pixels.
const WIDTH: u64 = 900;
/// Left of a plot, for labels.
const LEFT: u64 = 90;
/// How high one region's lane is.
const LANE: u64 = 80;
/// How high one fault's bar is.
const BAR: u64 = 15;
/// How long one column of calls is, in milliseconds.
const COLUMN: u64 = 250;

/// Calls by region and outcome, by when they began, below the faults that stood.
pub(super) fn timeline(timeline: &Timeline) -> String {
    let end = timeline.end.max(1);
    let x = |ms: u64| LEFT + ms.min(end) * (WIDTH - LEFT - 10) / end;
    let regions: BTreeSet<&str> = timeline.calls.iter().map(|call| call.0.as_str()).collect();
    let top = 18 + BAR * timeline.faults.len() as u64 + 18;
    let height = top + LANE * regions.len() as u64 + 24;
    let mut svg = open(height, &format!("calls of seed {} by region and outcome", timeline.seed));
    let mut free = 0;
    for (at, name) in &timeline.phases {
        let at = x(*at);
        // A phase without room for its name goes without.
        let name = if at >= free { name.as_str() } else { "" };
        free = free.max(at + 8 * name.len() as u64);
        // Writing to a string cannot fail, here and below.
        let _infallible = write!(
            svg,
            "<line x1='{at}' x2='{at}' y1='14' y2='{}' class='phase'/><text x='{}' y='11'>{}</text>",
            height - 20,
            at + 2,
            escape(name)
        );
    }
    for (row, (what, whom, from, until)) in (0..).zip(&timeline.faults) {
        let (from, until, y) = (x(*from), x(*until), 18 + BAR * row);
        let wide = until.saturating_sub(from).max(2);
        let (what, whom) = (escape(what), escape(whom));
        let _infallible = write!(
            svg,
            "<rect x='{from}' y='{top}' width='{wide}' height='{}' class='shade'/>\
             <rect x='{from}' y='{y}' width='{wide}' height='{}' class='fault'><title>{what}: {whom}</title></rect>\
             <text x='{}' y='{}' class='small'>{what} {}</text>",
            LANE * regions.len() as u64,
            BAR - 3,
            from + 3,
            y + BAR - 5,
            shortened(&whom),
        );
    }
    for (at, leader) in &timeline.leaders {
        let at = x(*at);
        let y = top - 5;
        let name = escape(leader.trim_start_matches("central-"));
        let _infallible =
            write!(svg, "<text x='{at}' y='{y}' class='small leader'>&#9650; {name} leads</text>");
    }
    for (row, region) in (0..).zip(&regions) {
        svg += &lane(timeline, region, top + LANE * row, &x);
    }
    svg + &axis(end, height, &x) + "</svg>"
}

/// One region's calls, a column for each stretch of time, stacked by outcome.
fn lane(timeline: &Timeline, region: &str, top: u64, x: &impl Fn(u64) -> u64) -> String {
    let mut columns: BTreeMap<u64, BTreeMap<&str, u64>> = BTreeMap::new();
    for (_, began, _, how) in timeline.calls.iter().filter(|call| call.0 == region) {
        *columns.entry(began / COLUMN).or_default().entry(how).or_default() += 1;
    }
    let most = columns.values().map(|column| column.values().sum::<u64>()).max().unwrap_or(1).max(4);
    let base = top + LANE - 4;
    let mut svg = format!(
        "<line x1='{LEFT}' x2='{}' y1='{base}' y2='{base}' class='axis'/><text x='4' y='{}'>{}</text>\
         <text x='4' y='{}' class='small'>max {most} / {COLUMN} ms</text>",
        WIDTH - 10,
        top + LANE / 2,
        escape(region),
        top + LANE / 2 + 13,
    );
    for (at, column) in columns {
        let (from, until) = (x(at * COLUMN), x((at + 1) * COLUMN));
        let mut y = base;
        for (how, colour) in OUTCOMES {
            let Some(count) = column.get(how) else { continue };
            let high = (count * (LANE - 12)).div_ceil(most);
            y -= high;
            let wide = until.saturating_sub(from).saturating_sub(1).max(1);
            let _infallible = write!(
                svg,
                "<rect x='{from}' y='{y}' width='{wide}' height='{high}' fill='{colour}'>\
                 <title>{count} {how}</title></rect>"
            );
        }
    }
    svg
}

/// How times are distributed: for each share of them, the time that they are at or below.
pub(super) fn distribution(name: &str, times: &[u64]) -> String {
    const HIGH: u64 = 150;
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    let Some(most) = sorted.last().copied().map(|most| most.max(1)) else { return String::new() };
    let x = |ms: u64| LEFT + ms.min(most) * (WIDTH - LEFT - 120) / most;
    let y = |rank: u64| HIGH - 24 - rank * (HIGH - 40) / (sorted.len() as u64).max(1);
    let mut path = format!("M{} {}", x(0), y(0));
    for (rank, ms) in (1..).zip(&sorted) {
        let _infallible = write!(path, " H{} V{}", x(*ms), y(rank));
    }
    let mut svg = open(HIGH, name);
    let _infallible = write!(svg, "<path d='{path}' class='curve'/>");
    for (share, name) in [(50, "p50"), (99, "p99"), (100, "max")] {
        let at = percentile(&sorted, share).unwrap_or(0);
        let line = x(at);
        let label = 26 + 13 * u64::from(share > 50) + 13 * u64::from(share > 99);
        let _infallible = write!(
            svg,
            "<line x1='{line}' x2='{line}' y1='14' y2='{}' class='phase'/>\
             <text x='{}' y='{label}' class='small'>{name} {at} ms</text>",
            HIGH - 24,
            line + 3,
        );
    }
    for (share, rank) in [("0 %", 0), ("100 %", sorted.len() as u64)] {
        let _infallible = write!(svg, "<text x='40' y='{}' class='small'>{share}</text>", y(rank) + 4);
    }
    svg + &axis(most, HIGH, &x) + "</svg>"
}

/// The axis of time below a plot that reaches `end` milliseconds.
fn axis(end: u64, height: u64, x: &impl Fn(u64) -> u64) -> String {
    let steps = [10, 50, 100, 250, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000];
    let step = steps.into_iter().find(|step| end / step <= 10).unwrap_or(300_000);
    let mut svg = String::new();
    for at in (0..=end).step_by(usize::try_from(step).unwrap_or(usize::MAX)) {
        let label = if step < 1_000 { format!("{at} ms") } else { format!("{} s", at / 1_000) };
        let (at, y) = (x(at), height - 8);
        let _infallible = write!(
            svg,
            "<line x1='{at}' x2='{at}' y1='{}' y2='{}' class='axis'/>\
             <text x='{at}' y='{y}' class='small tick'>{label}</text>",
            y - 16,
            y - 11,
        );
    }
    svg
}

fn open(height: u64, title: &str) -> String {
    format!(
        "<svg viewBox='0 0 {WIDTH} {height}' width='{WIDTH}' height='{height}' role='img' \
         xmlns='http://www.w3.org/2000/svg'><title>{}</title>",
        escape(title)
    )
}

fn shortened(text: &str) -> String {
    const MOST: usize = 70;
    if text.chars().count() <= MOST {
        text.to_owned()
    } else {
        text.chars().take(MOST).collect::<String>() + "…"
    }
}
