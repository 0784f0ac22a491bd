//! Holds the sources to the rules that no lint knows: what pure packages may name, how long a file may be, that each
//! file says what it decides, and that the documentation lists what the code offers.

#![expect(clippy::disallowed_methods, reason = "these tests read the project's own files")]
#![expect(clippy::unwrap_used, reason = "a helper's failure is the test's failure")]

use std::fs;
use std::path::{Path, PathBuf};

use base::Code;

/// Packages that decide and never act (their manifests name no I/O, clock or randomness).
const PURE: [&str; 7] = [
    "shared/base",
    "shared/wire",
    "shared/dialect",
    "shared/tokens",
    "shared/upstream",
    "edge/core",
    "central/core",
];

/// The files that may use what `.clippy.toml` bans, in whole or in one place: the seam itself, what stands outside of
/// every node, and tests of what is real. Nothing else of a node may.
const DOORS: [&str; 34] = [
    "central/usage/src/tests.rs",
    "deploy/cli/src/files.rs",
    "deploy/cli/tests/commands.rs",
    "deploy/cli/tests/up.rs",
    "edge/core/benches/admission.rs",
    "edge/src/snapshot/callers.rs",
    "shared/mesh/src/pki.rs",
    "shared/mesh/src/tests/keeping.rs",
    "shared/seam/src/host.rs",
    "shared/seam/src/lock.rs",
    "shared/seam/src/quic.rs",
    "shared/seam/src/real.rs",
    "shared/wire/tests/golden.rs",
    "simulations/hooks/src/steps.rs",
    "simulations/hooks/tests/interposed.rs",
    "simulations/src/engine/clock.rs",
    "simulations/src/engine/disk/process.rs",
    "simulations/src/engine/machine.rs",
    "simulations/src/engine/run.rs",
    "simulations/src/files.rs",
    "simulations/src/real.rs",
    "simulations/src/real/actor.rs",
    "simulations/src/threads.rs",
    "simulations/tests/consensus.rs",
    "simulations/tests/edges.rs",
    "simulations/tests/engine.rs",
    "simulations/tests/whole_mesh.rs",
    "tests/src/lib.rs",
    "tests/tests/configuration.rs",
    "tests/tests/operating.rs",
    "tests/tests/rotation.rs",
    "tests/tests/tidy.rs",
    "tests/tests/upstream.rs",
    "tests/tests/usage.rs",
];

/// Longest a file may be above its tests, in lines.
const MAX_LINES: usize = 600;

#[test]
fn pure_packages_name_no_io_clock_or_randomness() {
    let impure_crates =
        ["tokio", "hyper", "quinn", "rustls", "rand", "getrandom", "reqwest", "axum", "seam", "mesh"];
    let impure_paths = [
        "std::net::Tcp",
        "std::net::Udp",
        "ToSocketAddrs",
        "std::fs",
        "std::thread",
        "SystemTime",
        "Instant::now",
        "std::process",
        "std::env",
    ];
    let mut faults = Vec::new();
    for package in PURE {
        let manifest = fs::read_to_string(root().join(package).join("Cargo.toml")).unwrap();
        let runtime = manifest.split("[dev-dependencies]").next().unwrap_or_default();
        for name in impure_crates {
            if runtime
                .lines()
                .any(|line| line.starts_with(&format!("{name}.")) || line.starts_with(&format!("{name} ")))
            {
                faults.push(format!("{package}/Cargo.toml depends on {name}"));
            }
        }
        for file in sources(&root().join(package).join("src")) {
            for path in impure_paths {
                if above_tests(&file).contains(path) {
                    faults.push(format!("{} names {path}", shown(&file)));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn files_are_short_and_say_what_they_decide() {
    let mut faults = Vec::new();
    for file in all_sources() {
        let text = above_tests(&file);
        let lines = text.lines().count();
        let is_test = file.components().any(|part| part.as_os_str() == "tests") || file.ends_with("tests.rs");
        if lines > MAX_LINES && !is_test {
            faults.push(format!("{} has {lines} lines", shown(&file)));
        }
        let doc = text.lines().find(|line| !line.starts_with("#!") && !line.is_empty()).unwrap_or_default();
        if !is_test && (!doc.starts_with("//! ") || doc.len() < 10) {
            faults.push(format!("{} opens without a module doc", shown(&file)));
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
}

/// A dialect's fixtures are listed by name in the test of its name.
#[test]
fn each_fixture_of_a_dialect_is_used() {
    let tests = root().join("shared/dialect/tests");
    let mut unused = Vec::new();
    for folder in fs::read_dir(tests.join("fixtures")).unwrap().map(|folder| folder.unwrap().path()) {
        let user = fs::read_to_string(tests.join(folder.file_name().unwrap()).with_extension("rs")).unwrap();
        for file in fs::read_dir(&folder).unwrap() {
            let name = file.unwrap().file_name().into_string().unwrap();
            if !user.contains(&format!("\"{name}\"")) {
                unused.push(shown(&folder.join(name)));
            }
        }
    }
    assert!(unused.is_empty(), "{unused:#?}");
}

#[test]
fn only_listed_files_lift_the_bans() {
    let ban = concat!("clippy::", "disallowed_");
    let mut lifting: Vec<_> = all_sources()
        .into_iter()
        .filter(|file| fs::read_to_string(file).unwrap().contains(ban))
        .map(|file| shown(&file))
        .collect();
    lifting.sort_unstable();
    assert_eq!(lifting, DOORS);
}

#[test]
fn every_selection_among_futures_is_in_order() {
    let select = concat!("select", "! {");
    let mut faults = Vec::new();
    for file in all_sources() {
        let text = fs::read_to_string(&file).unwrap();
        for (number, line) in (1..).zip(text.lines()) {
            let next = text.lines().nth(number).unwrap_or_default();
            if line.contains(select) && next.trim() != "biased;" {
                faults.push(format!("{}:{number}", shown(&file)));
            }
        }
    }
    assert!(
        faults.is_empty(),
        "a race that is drawn differs from run to run; begin with `biased;`: {faults:#?}"
    );
}

#[test]
fn every_error_code_is_documented_with_its_status() {
    let page = fs::read_to_string(root().join("docs/errors.md")).unwrap();
    let missing: Vec<_> = Code::ALL
        .iter()
        .map(|code| format!("| `{}` | {} |", code.as_str(), code.status()))
        .filter(|row| !page.contains(row))
        .collect();
    assert!(missing.is_empty(), "docs/errors.md lacks these rows: {missing:#?}");
}

#[test]
fn every_metric_is_documented() {
    let page = fs::read_to_string(root().join("docs/metrics.md")).unwrap();
    let missing: Vec<_> = telemetry::names::ALL
        .iter()
        .map(|metric| format!("| `{}` | {} |", metric.name, metric.help))
        .filter(|row| !page.contains(row))
        .collect();
    assert!(missing.is_empty(), "docs/metrics.md lacks these rows: {missing:#?}");
}

#[test]
fn every_fixture_is_used() {
    let mut unused = Vec::new();
    for fixture in
        walk(&root()).into_iter().filter(|path| path.components().any(|part| part.as_os_str() == "fixtures"))
    {
        let name = fixture.file_name().unwrap().to_string_lossy().into_owned();
        if !all_sources().iter().any(|source| fs::read_to_string(source).unwrap().contains(&name)) {
            unused.push(shown(&fixture));
        }
    }
    assert!(unused.is_empty(), "{unused:#?}");
}

#[test]
fn links_between_documents_lead_somewhere() {
    let mut broken = Vec::new();
    for page in walk(&root()).into_iter().filter(|path| path.extension().is_some_and(|ext| ext == "md")) {
        let text = fs::read_to_string(&page).unwrap();
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let target = target.split('#').next().unwrap_or_default();
            if target.is_empty() || target.contains("://") {
                continue;
            }
            if !page.parent().unwrap().join(target).exists() {
                broken.push(format!("{} -> {target}", shown(&page)));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn all_sources() -> Vec<PathBuf> {
    let tops = ["shared", "edge", "central", "deploy", "simulations", "tests"];
    tops.iter().flat_map(|top| sources(&root().join(top))).collect()
}

fn sources(dir: &Path) -> Vec<PathBuf> {
    walk(dir).into_iter().filter(|path| path.extension().is_some_and(|ext| ext == "rs")).collect()
}

fn walk(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut entries: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort_unstable();
    for path in entries {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && name != "target" && !name.starts_with('.') {
            found.extend(walk(&path));
        } else if path.is_file() {
            found.push(path);
        }
    }
    found
}

fn above_tests(file: &Path) -> String {
    let text = fs::read_to_string(file).unwrap();
    text.split("\n#[cfg(test)]\nmod tests").next().unwrap_or_default().to_owned()
}

fn shown(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).display().to_string()
}
