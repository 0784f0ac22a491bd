//! Central grows to five members, loses one for good and has it replaced, and shrinks: all from the command line, with
//! real processes, while writes go on.

#![expect(clippy::unwrap_used, reason = "a helper's failure is the test's failure")]
#![expect(clippy::indexing_slicing, reason = "a missing field is the test's failure")]

use serde_json::Value;
use tests::configure::Story;
use tests::mesh::{Mesh, kill};
use tests::until::until;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_are_added_replaced_and_removed_while_writes_go_on() {
    let mut mesh = Mesh::start(env!("CARGO_BIN_EXE_node"));
    let four = mesh.join(4, "central-four", "us").to_string();
    let five = mesh.join(5, "central-five", "ap").to_string();
    add(&mesh, "4", "central-four", "us", &four, &[]);
    add(&mesh, "5", "central-five", "ap", &five, &[]);
    assert_eq!(voters(&mesh), [1, 2, 3, 4, 5]);
    writes_are_taken(&mesh, "five-members");
    every_member_follows(&mesh, 5).await;

    // Five bear the loss of two; the leader is among those that stay or is elected among them.
    for lost in ["central-us", "central-four"] {
        kill(mesh.node(lost).pid);
    }
    writes_are_taken(&mesh, "three-of-five");

    let six = mesh.join(6, "central-six", "us").to_string();
    add(&mesh, "6", "central-six", "us", &six, &["--replaces", "2"]);
    assert_eq!(voters(&mesh), [1, 3, 4, 5, 6], "the killed member is replaced");
    mesh.restart("central-four");
    every_member_follows(&mesh, 5).await;

    let refused = mesh
        .operate(&add_arguments("7", "central-seven", "us", &tests::mesh::nobody().to_string()))
        .unwrap_err();
    assert!(refused.contains("nothing was changed") && refused.contains("Check --mesh-address"), "{refused}");
    let listed = mesh.operate(&["members", "transfer", "3"]).unwrap();
    let row = listed.lines().find(|line| line.contains("central-ap")).unwrap();
    assert!(row.contains("leader"), "the new leader leads by then: {listed}");
    assert!(!listed.contains("central-seven"), "{listed}");

    for leaves in ["4", "5"] {
        mesh.operate(&["members", "remove", leaves]).unwrap();
    }
    assert_eq!(voters(&mesh), [1, 3, 6]);
    writes_are_taken(&mesh, "three-members");
    every_member_follows(&mesh, 3).await;

    let log = mesh.node("central-five").log.clone();
    until("a removed node stops and says why", async || {
        tests::mesh::text(&log).contains("this node was removed from central").then_some(())
    })
    .await;

    let back = add_arguments("5", "central-five", "ap", &five);
    let refused = mesh.operate(&back).unwrap_err();
    assert!(refused.contains("who left for ever"), "{refused}");
    let refused = mesh.operate(&["members", "remove", "9"]).unwrap_err();
    assert!(refused.contains("there is no member 9"), "{refused}");
}

fn add(mesh: &Mesh, id: &str, name: &str, region: &str, address: &str, more: &[&str]) {
    let arguments = [&add_arguments(id, name, region, address)[..], more].concat();
    let told = mesh.operate(&arguments).unwrap();
    let row = told.lines().find(|line| line.contains(name)).unwrap();
    assert!(row.contains("voter"), "{told}");
}

fn add_arguments<'a>(id: &'a str, name: &'a str, region: &'a str, address: &'a str) -> [&'a str; 10] {
    ["members", "add", "--id", id, "--name", name, "--region", region, "--mesh-address", address]
}

fn voters(mesh: &Mesh) -> Vec<u64> {
    let listed: Value = serde_json::from_str(&mesh.operate(&["members", "list", "--json"]).unwrap()).unwrap();
    let members = listed["members"].as_array().unwrap();
    members
        .iter()
        .filter(|member| member["voter"] == true)
        .map(|member| member["id"].as_u64().unwrap())
        .collect()
}

fn writes_are_taken(mesh: &Mesh, name: &str) {
    Story::new(name).apply(mesh);
    let got = mesh.operate(&["get", "tenants", name]).unwrap();
    assert!(got.contains(name), "{got}");
}

/// Every member is reachable and at the newest epoch, and one of them leads.
async fn every_member_follows(mesh: &Mesh, count: usize) {
    until("every member is up to date", async || {
        let status: Value = serde_json::from_str(&mesh.operate(&["status", "--json"]).ok()?).unwrap();
        let members = status["members"].as_array()?;
        let follows = |member: &Value| member["reachable"] == true && member["epoch"] == status["epoch"];
        let leads = members.iter().any(|member| member["name"] == status["leader"]);
        (leads && members.len() == count && members.iter().all(follows)).then_some(())
    })
    .await;
}
