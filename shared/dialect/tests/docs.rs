//! The page on dialects says what the code does.

#[test]
fn the_page_holds_the_table_of_fidelity_as_it_is() {
    let page = include_str!("../../../docs/dialects.md");
    let table = dialect::fidelity_table();
    assert!(page.contains(&table), "`portolan dialects` prints what belongs into docs/dialects.md:\n{table}");
}
