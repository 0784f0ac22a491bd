//! Several budgets of one call: its key's, its scenario's and its model's; and one whose span moves with time.

#![expect(clippy::unwrap_used, reason = "a helper's failure is the test's failure")]
#![expect(clippy::indexing_slicing, reason = "a missing field is the test's failure")]

use seam::Host;
use serde_json::{Value, json};
use tests::client::{Answer, post};
use tests::configure::Story;
use tests::faulty::Faulty;
use tests::mesh::Mesh;
use tests::until::until;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_level_pays_and_the_first_that_cannot_is_named() {
    let mesh = Mesh::start(env!("CARGO_BIN_EXE_node"));
    let story = Story::new("levels")
        .with(&format!("models:\n{}{}", model(&mesh, "dear"), model(&mesh, "cheap")))
        .with("groups: [{name: precious, models: [dear]}]")
        .with("routes: [{name: either, strategy: ordered, targets: [dear, cheap]}]")
        .with(
            "budgets:
  - {name: levels-all, tenant: levels, unit: usd, window: month, time_zone: Asia/Tokyo, limit: 5}
  - {name: levels-key, key: levels-key, unit: output_tokens, window: day, limit: 1000000}
  - {name: levels-help, tenant: levels, scenario: help, unit: requests, window: total, limit: 2}
  - {name: levels-precious, tenant: levels, model: precious, unit: requests, window: total, limit: 3}
  - {name: levels-rolling, tenant: levels, scenario: rolls, unit: requests, window: rolling 1h, limit: 10}",
        );
    story.apply(&mesh);
    let asking = Asking { mesh: &mesh, key: story.key() };
    until("the edge knows the models", async || (asking.call(None).await.status == 200).then_some(())).await;

    // The first was the call above, by the dear model, whose budget pays for two more.
    let mut answered = vec!["dear".to_owned()];
    for _ in 0..5 {
        answered.push(asking.by(None).await);
    }
    assert_eq!(answered, ["dear", "dear", "dear", "cheap", "cheap", "cheap"]);

    for _ in 0..2 {
        assert_eq!(asking.by(Some("help")).await, "cheap");
    }
    let refused = asking.call(Some("help")).await;
    assert_eq!((refused.status.as_u16(), refused.code()), (402, "budget_exceeded".to_owned()));
    assert!(said(&refused).contains("levels-help"), "{}", said(&refused));
    let told = explained(&mesh, &refused);
    assert_eq!((&told["edge"], &told["budget"]), (&json!("edge-eu"), &json!("levels-help")), "{told}");
    assert_eq!(told["message"], said(&refused), "{told}");
    let help = told["budgets"].as_array().unwrap().iter().find(|row| row["budget"] == "levels-help").unwrap();
    assert_eq!([&help["needed"], &help["free"], &help["held"]], [1, 0, 0], "{told}");
    assert_eq!([&help["said"]["limit"], &help["now"]["spent"], &help["now"]["limit"]], [2, 2, 2], "{told}");
    let words = mesh.operate(&["explain-refusal", &request(&refused)]).unwrap();
    assert!(words.contains("levels-help: less remains than the call needed"), "{words}");
    assert_eq!(asking.by(Some("other")).await, "cheap", "other scenarios have no budget of their own");

    // A fifth of the limit is there at once; the rest comes with time.
    for _ in 0..2 {
        assert_eq!(asking.by(Some("rolls")).await, "cheap");
    }
    let refused = asking.call(Some("rolls")).await;
    assert_eq!((refused.status.as_u16(), refused.code()), (429, "rate_limited".to_owned()));
    let after: u64 = refused.headers["retry-after"].to_str().unwrap().parse().unwrap();
    assert!((300..=600).contains(&after), "one of eight in an hour: {after}");
    assert!(said(&refused).contains("levels-rolling"), "{}", said(&refused));

    let refused = asking.call(Some("no name")).await;
    assert_eq!((refused.status.as_u16(), refused.code()), (400, "invalid_request".to_owned()));
    // A call that was made, and one that nobody made.
    let made = asking.call(None).await;
    assert_eq!(made.status, 200);
    let unknown = mesh.operate(&["explain-refusal", &request(&made)]).unwrap_err();
    assert!(unknown.contains("remembers"), "{unknown}");

    let leases: Value = serde_json::from_str(
        &mesh.operate(&["leases", "--budget", "levels-key", "--all", "--json"]).unwrap(),
    )
    .unwrap();
    let edges: Vec<_> = leases["rows"].as_array().unwrap().iter().map(|row| row["edge"].clone()).collect();
    assert_eq!(edges, ["edge-eu"], "the only edge that was called: {leases}");
    assert_eq!(leases["rows"][0]["lives"], true, "{leases}");
    assert!(mesh.operate(&["leases", "--all"]).unwrap().contains("levels-precious"));

    let books: Value = until("receipts are applied", async || {
        let books: Value =
            serde_json::from_str(&mesh.operate(&["ledger", "check", "--json"]).unwrap()).unwrap();
        let row = |name: &str| {
            books["rows"].as_array()?.iter().find(|row| row["name"] == name)?["receipts"].as_u64()
        };
        (row("levels-all") == Some(12 * 10_000_000)).then_some(books)
    })
    .await;
    assert_eq!(books["balanced"], true, "{books}");
    let paid = |name: &str| {
        let row = books["rows"].as_array().unwrap().iter().find(|row| row["name"] == name).unwrap();
        row["receipts"].as_u64().unwrap()
    };
    assert_eq!(["levels-help", "levels-precious", "levels-rolling"].map(paid), [2, 3, 2]);
    assert!(paid("levels-key") > 0, "{books}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_user_of_an_application_has_the_whole_limit() {
    let mesh = Mesh::start(env!("CARGO_BIN_EXE_node"));
    let story = Story::new("users")
        .with(&format!("models:\n{}", model(&mesh, "cheap")))
        .with("routes: [{name: either, strategy: ordered, targets: [cheap]}]")
        .with("budgets: [{name: users-each, tenant: users, app: app, each: user, unit: requests, window: total, limit: 3}]");
    story.apply(&mesh);
    let asking = Asking { mesh: &mesh, key: story.key() };
    until("the edge knows the models", async || (asking.of(None).await == 200).then_some(())).await;
    for user in ["ann", "bob", "Ann"] {
        let mut answered = Vec::new();
        for _call in 0..4 {
            answered.push(asking.of(Some(user)).await);
        }
        assert_eq!(answered, [200, 200, 200, 402], "{user}");
    }
    // Idle users are forgotten at the edge; what they spent is not.
    until("no edge holds credit of users", async || {
        mesh.operate(&["leases", "--all", "--budget", "users-each"])
            .ok()?
            .contains("no edge holds")
            .then_some(())
    })
    .await;
    assert_eq!(asking.of(Some("ann")).await, 402);
    let credit =
        ["budgets", "correct", "users-each", "--user", "ann", "--credit", "1", "--reason", "an outage"];
    let told = mesh.operate(&credit).unwrap();
    assert!(told.contains("1 calls of users-each, user "), "{told}");
    until("what she was credited", async || (asking.of(Some("ann")).await == 200).then_some(())).await;
    assert_eq!([asking.of(Some("ann")).await, asking.of(Some("bob")).await], [402, 402]);
    let whole = ["budgets", "correct", "users-each", "--credit", "1", "--reason", "an outage"];
    assert!(mesh.operate(&whole).unwrap_err().contains("one user's at a time"));
    let decided = mesh.operate(&["ledger", "decisions", "--json"]).unwrap();
    assert!(decided.contains("an outage") && !decided.contains("ann"), "{decided}");
    assert_eq!([asking.of(None).await, asking.of(None).await, asking.of(None).await], [200, 200, 402]);
    let budgets: Value =
        serde_json::from_str(&mesh.operate(&["budgets", "--budget", "users-each", "--json"]).unwrap())
            .unwrap();
    let account = &budgets["budgets"][0];
    assert_eq!(
        (&account["accounts"], &account["limit"], &account["scope"]),
        (&json!(4), &json!(3), &json!("each user of users/app"))
    );
    let got = mesh.operate(&["get", "budgets", "users-each"]).unwrap();
    assert!(got.contains("each"), "{got}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_soft_budget_warns_then_makes_calls_cheaper_then_refuses() {
    let mesh = Mesh::start(env!("CARGO_BIN_EXE_node"));
    let story = Story::new("soft")
        .with(&format!("models:\n{}{}", model_at(&mesh, "dear", "0.02"), model(&mesh, "cheap")))
        .with("routes: [{name: either, strategy: ordered, targets: [dear, cheap]}]")
        .with(
            "budgets:
  - name: soft-calls
    tenant: soft
    unit: requests
    window: total
    limit: 20
    mode: soft
    overdraft: 10
    thresholds:
      - {at: 0.25, do: warn}
      - {at: 0.5, do: downgrade, cheapest: true, output_cap: 5}
      - {at: 1.5, do: refuse}",
        );
    story.apply(&mesh);
    let asking = Asking { mesh: &mesh, key: story.key() };
    until("the edge knows the models", async || (asking.call(None).await.status == 200).then_some(())).await;

    let (mut served, mut seen) = (1, Vec::new());
    let refused = until("the budget refuses", async || {
        let answer = asking.call(None).await;
        if answer.status != 200 {
            return Some(answer);
        }
        served += 1;
        let told = answer.headers.get("x-portolan-budget").map(|value| value.to_str().unwrap().to_owned());
        let did = told.and_then(|told| Some(told.split_once("did=")?.1.to_owned())).unwrap_or_default();
        if did == "downgrade" {
            assert_eq!(by(&answer), "cheap");
            assert!(answer.json()["usage"]["completion_tokens"].as_u64().unwrap() <= 5, "{answer:?}");
        } else {
            assert_eq!(by(&answer), "dear");
        }
        if seen.last() != Some(&did) {
            seen.push(did);
        }
        None
    })
    .await;
    assert_eq!(seen, ["", "warn", "downgrade"]);
    assert_eq!((refused.status.as_u16(), refused.code()), (402, "budget_exceeded".to_owned()));
    assert!(said(&refused).contains("soft-calls"), "{}", said(&refused));
    assert!(
        served >= 30,
        "a soft budget goes on beyond its limit, and here to one and a half times as much: {served}"
    );

    until("every call is in the books", async || {
        let books: Value =
            serde_json::from_str(&mesh.operate(&["ledger", "check", "--json"]).unwrap()).unwrap();
        let row = books["rows"].as_array()?.iter().find(|row| row["name"] == "soft-calls")?;
        let paid = row["receipts"].as_u64()? + row["overrun"].as_u64()?;
        (paid == served && books["balanced"] == true).then_some(())
    })
    .await;
}

/// Whichever edge calls and whichever central node relays: the account has one rate.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_providers_limits_are_held_over_all_edges() {
    let mesh = Mesh::start(env!("CARGO_BIN_EXE_node"));
    let provider = Faulty::start().await;
    let story = Story::new("account")
        .with(&format!(
            "providers: [{{name: shared, base_url: \"{}\", credential: sk-shared, limits: {{requests_per_min: 30}}}}]",
            provider.url()
        ))
        .with("models: [{name: either, price: {input: 0, output: 0}, context: 8192, output_cap: 64, provider: shared}]");
    story.apply(&mesh);
    let host = Host::real();
    let begun = host.now();
    let (mut served, mut refused) = (0_u64, Vec::new());
    let ask = json!({"model": "either", "messages": [{"role": "user", "content": "One word, please."}]})
        .to_string();
    let regions = ["eu", "us", "ap"];
    let (client, key) = (mesh.client(), story.key());
    for region in regions.iter().cycle().take(60) {
        let url = mesh.plain(region);
        let answer = until("credit is there", async || {
            let answer = client.post(&url, "/v1/chat/completions", &key, ask.clone()).await.ok()?;
            // Another edge takes the configuration a moment later.
            (![401, 404, 503].contains(&answer.status.as_u16())).then_some(answer)
        })
        .await;
        match answer.status.as_u16() {
            200 => served += 1,
            _refused => refused.push(answer),
        }
    }
    // A fifth at once, and the other four as time passes.
    let earned = host.now().since(begun).as_secs() * 24 / 60 + 1;
    assert!(
        (1..=6 + earned).contains(&served),
        "{served} served, at most {} were there; {:?}",
        6 + earned,
        refused.first()
    );
    let first = refused.first().unwrap();
    assert_eq!((first.status.as_u16(), first.code()), (429, "rate_limited".to_owned()));
    assert!(said(first).contains("shared.requests_per_min"), "{}", said(first));
    assert!(first.headers.contains_key("retry-after"));
    let got = mesh.operate(&["get", "providers", "shared"]).unwrap();
    assert!(got.contains("requests_per_min") && got.contains("30"), "{got}");
    assert!(mesh.operate(&["budgets"]).unwrap().contains("shared.requests_per_min"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_threshold_turns_features_off_and_refuses_what_cannot_do_without() {
    let mesh = Mesh::start(env!("CARGO_BIN_EXE_node"));
    let server = Faulty::start().await;
    let story = Story::new("plain")
        .with(&format!(
            "models: [{{name: either, price: {{input: 0, output: 0}}, context: 8192, output_cap: 64, replicas: [{{name: a, region: eu, url: \"{}\"}}]}}]",
            server.url()
        ))
        .with(
            "budgets:
  - name: plain-calls
    tenant: plain
    unit: requests
    window: total
    limit: 1000
    mode: soft
    thresholds: [{at: 0.001, do: downgrade, features_off: [tools, n, reasoning, images]}]",
        );
    story.apply(&mesh);
    let (client, url, key) = (mesh.client(), mesh.plain("eu"), story.key());
    let ask = |more: Value| {
        let mut body = json!({"model": "either", "messages": [{"role": "user", "content": "hi"}]});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body.to_string()
    };
    let call = async |more: Value| client.post(&url, "/v1/chat/completions", &key, ask(more)).await.unwrap();
    let dear = json!({
        "n": 3, "reasoning_effort": "high", "tools": [{"type": "function", "function": {"name": "f"}}],
        "tool_choice": "auto", "x_unknown": 1.5,
    });
    let answer = until("the threshold is reached", async || {
        let answer = call(dear.clone()).await;
        answer.headers.contains_key("x-portolan-budget").then_some(answer)
    })
    .await;
    let told = answer.headers["x-portolan-budget"].to_str().unwrap();
    assert!(answer.status == 200 && told.ends_with("did=downgrade; off=tools,n,reasoning"), "{told}");
    let asked = server.asked();
    let left =
        ["n", "reasoning_effort", "tools", "tool_choice", "x_unknown"].map(|field| asked[field].clone());
    assert_eq!(left, [json!(1), json!("low"), Value::Null, Value::Null, json!(1.5)], "{asked}");
    let record = recorded(&mesh, &answer).await;
    assert_eq!(record["features_off"], json!(["tools", "n", "reasoning"]), "{record}");

    let demands = json!({"tools": [{"type": "function"}], "tool_choice": "required"});
    let image = json!({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:"}}]}]});
    for (more, words) in [(demands, "calls that demand a tool"), (image, "calls with images")] {
        let refused = call(more).await;
        assert_eq!((refused.status.as_u16(), refused.code()), (402, "budget_exceeded".to_owned()));
        assert!(said(&refused).contains(words), "{}", said(&refused));
    }
    let plain = call(json!({})).await;
    let told = plain.headers["x-portolan-budget"].to_str().unwrap();
    assert!(plain.status == 200 && told.ends_with("did=downgrade"), "{told}");
    let record = recorded(&mesh, &plain).await;
    assert!(record["features_off"].as_array().is_none_or(Vec::is_empty), "{record}");
}

struct Asking<'a> {
    mesh: &'a Mesh,
    key: String,
}

impl Asking<'_> {
    /// Calls in a scenario.
    async fn call(&self, scenario: Option<&str>) -> Answer {
        self.saying("x-portolan-scenario", scenario).await
    }

    /// How a call of an end user ends.
    async fn of(&self, user: Option<&str>) -> u16 {
        self.saying("x-portolan-user", user).await.status.as_u16()
    }

    /// Calls as SDKs do: a 503 says that nothing was spent and when to come back.
    async fn saying(&self, header: &'static str, value: Option<&str>) -> Answer {
        let body = json!({"model": "either", "messages": [{"role": "user", "content": "One word, please."}]});
        let mut request = post("/v1/chat/completions", &self.key, body.to_string());
        request.headers_mut().insert("x-portolan-debug", "true".parse().unwrap());
        if let Some(value) = value {
            request.headers_mut().insert(header, value.parse().unwrap());
        }
        until("credit is there", async || {
            let answer = self.mesh.client().ask(&self.mesh.plain("eu"), request.clone()).await.unwrap();
            (answer.status != 503).then_some(answer)
        })
        .await
    }

    /// Which model answers.
    async fn by(&self, scenario: Option<&str>) -> String {
        let answer = self.call(scenario).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        by(&answer)
    }
}

fn by(answer: &Answer) -> String {
    let told: Value = serde_json::from_slice(answer.headers["x-portolan-debug"].as_bytes()).unwrap();
    told["model"].as_str().unwrap_or_default().to_owned()
}

/// What operators are told of a refused call.
fn explained(mesh: &Mesh, refused: &Answer) -> Value {
    serde_json::from_str(&mesh.operate(&["explain-refusal", &request(refused), "--json"]).unwrap()).unwrap()
}

/// What the edge in Europe wrote of a call.
async fn recorded(mesh: &Mesh, answer: &Answer) -> Value {
    let records = mesh.dir().join("mesh/records/edge-eu/calls-0.jsonl");
    until("the record is written", async || {
        let text = tests::mesh::text(&records);
        let mut records = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        records.find(|record| record["request"] == request(answer))
    })
    .await
}

fn request(answer: &Answer) -> String {
    answer.headers["x-request-id"].to_str().unwrap().to_owned()
}

fn said(answer: &Answer) -> String {
    answer.json()["error"]["message"].as_str().unwrap_or_default().to_owned()
}

/// A model that costs a cent a call.
fn model(mesh: &Mesh, name: &str) -> String {
    model_at(mesh, name, "0.01")
}

fn model_at(mesh: &Mesh, name: &str, call: &str) -> String {
    let demos = mesh.facts.demo.iter().filter(|demo| demo.region != "provider");
    let replicas: Vec<_> = demos
        .map(|demo| format!("{{name: {}, region: {}, url: \"{}\"}}", demo.name, demo.region, demo.url))
        .collect();
    format!(
        "  - {{name: {name}, price: {{input: 0, output: 0, call: {call}}}, context: 8192, output_cap: 256, replicas: [{}]}}\n",
        replicas.join(", ")
    )
}
