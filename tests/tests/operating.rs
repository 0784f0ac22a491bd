//! What operators do with `portolan`: plan, apply, get, roll back, look at status and usage, revoke keys; what is
//! printed where, and the codes that scripts go by.

#![expect(clippy::unwrap_used, reason = "a helper's failure is the test's failure")]
#![expect(clippy::panic, reason = "a helper's failure is the test's failure")]
#![expect(clippy::indexing_slicing, reason = "a missing field is the test's failure")]
#![expect(clippy::disallowed_methods, reason = "operators stand outside every node, on the operating system")]

use std::process::Output;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};
use tests::configure::Story;
use tests::mesh::Mesh;
use tests::until::until;

#[tokio::test]
async fn operators_change_and_read_the_configuration_and_see_the_mesh() {
    let mesh = Mesh::start(env!("CARGO_BIN_EXE_node"));
    a_plan_changes_nothing_and_an_apply_makes_an_epoch(&mesh);
    a_file_that_cannot_be_applied_is_refused_whole_with_its_place(&mesh);
    a_rollback_is_a_new_epoch_with_the_content_of_an_old_one(&mesh);
    the_status_shows_nodes_links_epochs_models_and_budgets(&mesh).await;
    the_status_tells_what_tokenizers_edges_lack(&mesh).await;
    what_was_used_is_told(&mesh).await;
    a_level_is_raised_only_as_far_as_every_node_knows(&mesh);
}

#[test]
fn keys_are_revoked_while_others_change_the_configuration() {
    let mesh = Mesh::start(env!("CARGO_BIN_EXE_node"));
    let keys = (0..8).map(|n| {
        format!(
            "- {{name: k{n}, tenant: busy, app: app, secret: sk-test-busy-000000000000000000000000000{n}}}\n"
        )
    });
    let keys: String = keys.collect();
    Story::new("busy").apply(&mesh);
    let busy = file(&mesh, "keys.yaml", &format!("keys:\n{keys}"));
    assert!(mesh.run(&["apply", "-f", &busy]).status.success());
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for writer in 0..2 {
            let (mesh, done) = (&mesh, &done);
            scope.spawn(move || {
                for limit in (1..).take_while(|_| !done.load(Ordering::Relaxed)) {
                    let text =
                        format!("tenants: [{{name: other-{writer}, limits: {{concurrency: {limit}}}}}]");
                    drop(mesh.run(&["apply", "-f", &file(mesh, &format!("other-{writer}.yaml"), &text)]));
                }
            });
        }
        for n in 0..8 {
            let revoked = mesh.run(&["keys", "revoke", &format!("k{n}")]);
            assert!(revoked.status.success() || done.swap(true, Ordering::Relaxed), "{}", said(&revoked));
        }
        done.store(true, Ordering::Relaxed);
    });
    let keys = in_force(&mesh, &["keys"]);
    let revoked = keys["keys"].as_array().unwrap().iter().filter(|key| key["revoked"] == true).count();
    assert_eq!(revoked, 8, "{keys}");
    let unknown = mesh.run(&["keys", "revoke", "nobody"]);
    assert_eq!(unknown.status.code(), Some(5), "{}", said(&unknown));
}

fn a_plan_changes_nothing_and_an_apply_makes_an_epoch(mesh: &Mesh) {
    let before = epoch(mesh);
    let path = file(mesh, "acme.yaml", "tenants: [{name: acme}]\napps: [{tenant: acme, name: chat}]\n");
    let planned = mesh.operate(&["plan", "-f", &path]).unwrap();
    assert!(planned.contains("+ tenant acme") && planned.contains("2 to add, 0 to change"), "{planned}");
    assert_eq!(epoch(mesh), before, "a plan changes nothing");

    let applied = mesh.operate(&["apply", "-f", &path, "--note", "hello acme"]).unwrap();
    assert!(applied.contains(&format!("epoch {} is in force", before + 1)), "{applied}");
    let again = mesh.operate(&["apply", "-f", &path]).unwrap();
    assert_eq!(again, format!("Nothing to change; epoch {} stands.\n", before + 1));
    let stale = mesh.run(&["apply", "-f", &file(mesh, "x.yaml", "tenants: [{name: x}]"), "--base", "1"]);
    assert_eq!(stale.status.code(), Some(5), "{}", said(&stale));
    assert!(said(&stale).contains("planned on epoch 1"), "{}", said(&stale));

    let got = mesh.operate(&["get", "tenants", "acme"]).unwrap();
    let again = mesh.operate(&["plan", "-f", &file(mesh, "got.yaml", &got)]).unwrap();
    assert!(again.starts_with("Nothing to change"), "what `get` writes, `apply` reads: {again}");
    assert_eq!(in_force(mesh, &["tenant", "acme"])["tenants"][0]["name"], "acme");
    assert_eq!(mesh.run(&["get", "tenants", "nobody"]).status.code(), Some(5));
    assert_eq!(mesh.run(&["get", "unicorns"]).status.code(), Some(3));
    assert_eq!(mesh.run(&["budgets", "--budget", "nobody"]).status.code(), Some(5));
    let budgets: Value = serde_json::from_str(&mesh.operate(&["budgets", "--json"]).unwrap()).unwrap();
    let budget = budgets["budgets"][0]["budget"].as_str().unwrap();
    let no_amount = ["budgets", "correct", budget, "--charge", "NaN", "--reason", "none"];
    assert_eq!(mesh.run(&no_amount).status.code(), Some(2));
}

fn a_file_that_cannot_be_applied_is_refused_whole_with_its_place(mesh: &Mesh) {
    let before = (epoch(mesh), in_force(mesh, &[]));
    let text = "tenants:\n  - {name: fine}\n  - {name: bad, limits: {concurrency: many}}\n";
    let path = file(mesh, "bad.yaml", text);
    for command in ["apply", "plan"] {
        let refused = mesh.run(&[command, "-f", &path]);
        assert_eq!(refused.status.code(), Some(3), "{}", said(&refused));
        let place = format!("{path}:3:39: tenants[1].limits.concurrency: ");
        assert!(said(&refused).contains(&place), "{place} is not in {}", said(&refused));
    }
    let (absent, gone) = (file(mesh, "absent.yaml", ""), file(mesh, "gone.yaml", ""));
    for path in [&absent, &gone] {
        std::fs::remove_file(path).unwrap();
    }
    let missing = mesh.run(&["apply", "-f", &absent, "-f", &gone]);
    assert!(said(&missing).contains(&absent) && said(&missing).contains(&gone), "{}", said(&missing));
    let dangling = file(mesh, "dangling.yaml", "models: [{name: m, provider: nobody}]");
    let refused = mesh.run(&["apply", "-f", &dangling]);
    assert_eq!(refused.status.code(), Some(3), "{}", said(&refused));
    assert!(said(&refused).contains("no provider \"nobody\""), "{}", said(&refused));
    assert_eq!((epoch(mesh), in_force(mesh, &[])), before, "nothing was changed");
}

fn a_rollback_is_a_new_epoch_with_the_content_of_an_old_one(mesh: &Mesh) {
    let (before, content) = (epoch(mesh), in_force(mesh, &[]));
    let path = file(mesh, "brief.yaml", "tenants: [{name: brief}]");
    mesh.operate(&["apply", "-f", &path, "--note", "for a moment"]).unwrap();
    assert_ne!(in_force(mesh, &[]), content);
    let back = mesh.operate(&["rollback", &before.to_string()]).unwrap();
    assert!(back.contains(&format!("epoch {} is in force", before + 2)), "{back}");
    assert_eq!(in_force(mesh, &[]), content);

    let epochs: Value = serde_json::from_str(&mesh.operate(&["epochs", "--json"]).unwrap()).unwrap();
    let told: Vec<_> = epochs.as_array().unwrap().iter().take(2).collect();
    assert_eq!((&told[0]["epoch"], &told[0]["by"]), (&json!(before + 2), &json!("operator")));
    assert_eq!((&told[1]["epoch"], &told[1]["note"]), (&json!(before + 1), &json!("for a moment")));
    assert!(mesh.operate(&["epochs"]).unwrap().contains("for a moment"));
    let unknown = mesh.run(&["rollback", "9999"]);
    assert_eq!(unknown.status.code(), Some(5), "{}", said(&unknown));
}

async fn the_status_shows_nodes_links_epochs_models_and_budgets(mesh: &Mesh) {
    let epoch = epoch(mesh);
    let status = until("every node is up to date and every link is measured", async || {
        let status: Value = serde_json::from_str(&mesh.operate(&["status", "--json"]).unwrap()).unwrap();
        let (members, edges) = (status["members"].as_array()?, status["edges"].as_array()?);
        let links = |node: &Value| {
            node["links"].as_array().unwrap().iter().filter(|link| link["rtt_us"].as_u64() > Some(0)).count()
        };
        let whole = members.len() == 3
            && edges.len() == 3
            && members.iter().chain(edges).all(|node| node["epoch"] == epoch)
            && members.iter().all(|member| member["reachable"] == true && links(member) >= 2)
            && edges.iter().all(|edge| edge["attached_to"].is_string() && links(edge) >= 5);
        whole.then_some(status)
    })
    .await;
    let large =
        status["models"].as_array().unwrap().iter().find(|model| model["name"] == "demo-large").unwrap();
    assert_eq!((&large["provider"], &large["priced"]), (&json!("demo"), &json!(true)));
    let day = &status["budgets"][0];
    assert_eq!(
        (&day["name"], &day["scope"], &day["window"]),
        (&json!("demo-day"), &json!("tenant demo"), &json!("day"))
    );
    assert_eq!(day["limit"], 10_000_000_000_u64);

    let text = mesh.operate(&["status"]).unwrap();
    let leader = status["leader"].as_str().unwrap();
    for expected in [
        &format!("mesh local: epoch {epoch}, leader {leader}"),
        "\ncentral\n",
        "\nedges\n",
        "\nlinks\n",
        "\nmodels\n",
        "\nbudgets\n",
        "serving",
        "central-ap",
        "edge-us",
        " ms",
        "demo-small",
        "eu 1, us 1",
        "demo-day",
        "$10.00",
    ] {
        assert!(text.contains(expected), "{expected:?} is not in\n{text}");
    }
}

async fn the_status_tells_what_tokenizers_edges_lack(mesh: &Mesh) {
    let apply = |tokenizer: &str, cap: u32| {
        let model = format!(
            "models: [{{name: counted, context: 8192, output_cap: {cap}, tokenizer: {tokenizer}, provider: demo}}]"
        );
        mesh.operate(&["apply", "-f", &file(mesh, "counted.yaml", &model)]).unwrap();
    };
    let lacking = async |what: &str, edges: usize| {
        until(what, async || {
            let status: Value = serde_json::from_str(&mesh.operate(&["status", "--json"]).ok()?).ok()?;
            let of = status["edges"].as_array()?.iter().filter_map(|edge| edge["missing_tokenizers"].get(0));
            let found: Vec<Value> =
                of.filter(|missing| missing["why"].as_str().unwrap().contains(what)).cloned().collect();
            (found.len() == edges).then_some(found)
        })
        .await
    };
    let path = mesh.dir().join("mesh/tokenizers/absent.json");
    apply("absent", 64);
    for missing in lacking("cannot be read", 3).await {
        assert_eq!(missing["name"], "absent", "{missing}");
        assert!(missing["mend"].as_str().unwrap().contains(path.to_str().unwrap()), "{missing}");
    }
    let status = mesh.operate(&["status"]).unwrap();
    assert!(status.contains("tokenizers that edges lack") && status.contains("absent"), "{status}");

    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, "{}").unwrap();
    apply("absent", 63);
    for missing in lacking("cannot be used", 3).await {
        assert!(missing["mend"].as_str().unwrap().contains("portolan config tokenizer"), "{missing}");
    }
    apply("o200k_base", 63);
    until("nothing is missing", async || {
        (!mesh.operate(&["status"]).ok()?.contains("tokenizers that edges lack")).then_some(())
    })
    .await;
}

async fn what_was_used_is_told(mesh: &Mesh) {
    let ask =
        json!({"model": "demo-small", "max_tokens": 4, "messages": [{"role": "user", "content": "hi"}]});
    let url = mesh.plain("eu");
    let answer = mesh.client().post(&url, "/v1/chat/completions", &mesh.facts.key, ask.to_string()).await;
    assert_eq!(answer.unwrap().status, 200);
    let row = until("a receipt is applied", async || {
        let rows: Value = serde_json::from_str(&mesh.operate(&["usage", "--json"]).unwrap()).unwrap();
        rows.as_array()?.iter().find(|row| row["model"] == "demo-small").cloned()
    })
    .await;
    assert!(row["calls"].as_u64() >= Some(1) && row["output"].as_u64() > Some(0), "{row}");
    let text = mesh.operate(&["usage"]).unwrap();
    assert!(text.contains("playground") && text.contains("demo-small") && text.contains('$'), "{text}");
}

fn a_level_is_raised_only_as_far_as_every_node_knows(mesh: &Mesh) {
    let level = wire::LEVEL.to_string();
    let told = mesh.operate(&["level", &level]).unwrap();
    assert!(told.contains(&format!("the mesh uses level {level}")), "{told}");
    let refused = mesh.run(&["level", "999"]);
    assert_eq!(refused.status.code(), Some(5), "{}", said(&refused));
    assert!(said(&refused).contains("knows only level"), "{}", said(&refused));
}

fn epoch(mesh: &Mesh) -> u64 {
    let status: Value = serde_json::from_str(&mesh.operate(&["status", "--json"]).unwrap()).unwrap();
    status["epoch"].as_u64().unwrap_or_else(|| panic!("no epoch in {status}"))
}

/// What `get` tells.
fn in_force(mesh: &Mesh, what: &[&str]) -> Value {
    let arguments: Vec<&str> = ["get"].iter().chain(what).chain(&["--json"]).copied().collect();
    serde_json::from_str(&mesh.operate(&arguments).unwrap()).unwrap()
}

fn file(mesh: &Mesh, name: &str, text: &str) -> String {
    let path = mesh.dir().join(name);
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
