//! Holds the configuration reference to the code: its examples are read by the readers of the product, and every field
//! that those readers ask for stands on the page.

#![expect(clippy::disallowed_methods, reason = "these tests read the project's own files")]
#![expect(clippy::unwrap_used, reason = "a helper's failure is the test's failure")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use base::KeyHash;
use central_core::files::{Source, read};
use wire::catalog::Catalog;

#[test]
fn the_example_of_an_edge_is_one() {
    edge::config::Config::parse("edge.toml", &example("toml edge")).unwrap();
}

#[test]
fn the_example_of_a_central_node_is_one() {
    central::config::Config::parse("central.toml", &example("toml central")).unwrap();
}

#[test]
fn the_example_of_a_mesh_is_one() {
    let sources = [Source { name: "mesh.yaml".into(), text: example("yaml") }];
    let parsed = read(&sources, &Catalog::default(), &BTreeSet::new(), &|_secret| KeyHash([0; 32])).unwrap();
    let mut kinds = Vec::new();
    for kind in parsed.objects.iter().map(std::mem::discriminant) {
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    assert_eq!(kinds.len(), 8, "tenants, apps, keys, providers, models, groups, routes, budgets");
}

#[test]
fn every_field_that_is_read_is_documented() {
    let readers =
        ["edge/src/config", "edge/src/config.rs", "central/src/config.rs", "central/core/src/files"];
    let asks = [
        "required(",
        "optional(",
        "or(",
        "list(",
        "mapping(",
        "mappings(",
        "items(",
        "need(",
        "small(",
        "millis(",
    ];
    let page = page();
    let mut missing = Vec::new();
    for source in readers.iter().flat_map(|reader| sources(&root().join(reader))) {
        let text = std::fs::read_to_string(&source).unwrap();
        let text = text.split("#[cfg(test)]").next().unwrap_or_default();
        for ask in asks {
            for rest in text.split(&format!(".{ask}\"")).skip(1) {
                let field = rest.split('"').next().unwrap_or_default();
                if !page.contains(field) {
                    missing.push(format!("{field} of {}", source.display()));
                }
            }
        }
    }
    assert!(missing.is_empty(), "docs/configuration.md lacks {missing:#?}");
}

/// The first fenced block whose info string is `kind`.
fn example(kind: &str) -> String {
    let page = page();
    let block = page.split(&format!("```{kind}\n")).nth(1).unwrap();
    block.split("```").next().unwrap().to_owned()
}

fn page() -> String {
    std::fs::read_to_string(root().join("docs/configuration.md")).unwrap()
}

fn sources(path: &Path) -> Vec<PathBuf> {
    if path.is_file() {
        return vec![path.to_owned()];
    }
    let Ok(entries) = std::fs::read_dir(path) else { return Vec::new() };
    let mut found: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    found.retain(|path| path.extension().is_some_and(|ext| ext == "rs") && !path.ends_with("tests.rs"));
    found.sort_unstable();
    found
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}
