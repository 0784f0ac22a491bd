//! Bills written from what was counted, and then spoiled.

use std::collections::BTreeMap;

use proptest::prelude::*;
use usage_store::Total;

use super::*;

type Books = BTreeMap<Subject, Counted>;
type Counts = (u64, u64, u64, u64, u64);

fn read(text: &str) -> Result<Bill, Vec<String>> {
    Bill::read("bill.csv", text, &Columns::default())
        .map_err(|faults| faults.iter().map(ToString::to_string).collect())
}

/// Some days of some models and keys; every subject had calls.
fn books() -> impl Strategy<Value = Books> {
    let subject = (20_000i64..20_010, 0usize..3, 0usize..2);
    let total = (1u64..50, 0u64..1 << 40, 0u64..1 << 20, 0u64..1 << 40, 0u64..1 << 50);
    proptest::collection::btree_map(subject, total, 1..20).prop_map(|all| {
        let counted = |(subject, counts): ((i64, usize, usize), Counts)| {
            let ((at, model, key), (calls, fresh, cached, output, cost)) = (subject, counts);
            let model = ["gpt, large", "embed", "\"quoted\""][model].to_owned();
            let total = Total {
                calls,
                attempts: calls,
                estimated: 0,
                input: fresh + cached,
                cached_input: cached,
                output,
                cost,
            };
            (Subject { at, model, key: Some(["a", "b"][key].to_owned()) }, Counted(total))
        };
        all.into_iter().map(counted).collect()
    })
}

/// The bill that says what was counted.
fn written(books: &Books) -> String {
    let mut text =
        "output_tokens,day,key,model,requests,input_tokens,cached_tokens,uncached_input_tokens,cost\r\n"
            .to_owned();
    for (subject, Counted(total)) in books {
        let model = subject.model.replace('"', "\"\"");
        let cost = settings::decimal::text(base::NanoUsd(total.cost));
        text += &format!(
            "{},{},{},\"{model}\",{},{},{},{},{cost}\r\n",
            total.output,
            Grain::Day.text(subject.at),
            subject.key.as_deref().unwrap_or_default(),
            total.calls,
            total.input,
            total.cached_input,
            total.input - total.cached_input,
        );
    }
    text
}

fn states(lines: &[Line]) -> Vec<State> {
    lines.iter().map(|line| line.state).collect()
}

proptest! {
    #[test]
    fn a_bill_that_says_what_was_counted_agrees_in_every_line(books in books()) {
        let bill = read(&written(&books)).unwrap();
        let lines = reconcile(&bill, &books, Tolerance::default());
        prop_assert_eq!(lines.len(), books.len());
        prop_assert!(lines.iter().all(|line| line.state == State::Agrees));
        prop_assert!(lines.iter().all(|line| line.figures.values().all(|figure| figure.more() == 0)));
    }

    #[test]
    fn what_is_spoiled_is_found_where_it_is_and_by_how_much(
        books in books(), chosen: prop::sample::Index, more in 1u64..1_000, what in 0usize..3
    ) {
        let at = chosen.index(books.len());
        let mut bill = read(&written(&books)).unwrap();
        let subject = books.keys().nth(at).unwrap().clone();
        let mut expected = vec![State::Agrees; books.len()];
        let mut counted = books;
        expected[at] = match what {
            0 => {
                bill.lines.get_mut(&subject).unwrap().figures.get_mut(&Figure::Output).unwrap().amount += more;
                State::Differs
            }
            1 => {
                bill.lines.remove(&subject);
                State::NotBilled
            }
            _ => {
                counted.remove(&subject);
                State::NotOurs
            }
        };
        let lines = reconcile(&bill, &counted, Tolerance::default());
        prop_assert_eq!(states(&lines), expected);
        if what == 0 {
            prop_assert_eq!(lines[at].figures[&Figure::Output].more(), i128::from(more));
        }
        // What is billed and what was counted are in the lines whole, whatever came of them.
        let sum = |of: fn(&Difference) -> u64| -> u64 {
            lines.iter().map(|line| of(&line.figures[&Figure::Cost])).sum()
        };
        prop_assert_eq!(sum(|figure| figure.counted), counted.values().map(|one| one.0.cost).sum::<u64>());
        let billed = bill.lines.values().map(|billed| billed.figures[&Figure::Cost].amount);
        prop_assert_eq!(sum(|figure| figure.billed), billed.sum::<u64>());
    }

    #[test]
    fn a_tolerance_takes_what_lies_within_it_and_nothing_beyond(
        counted in 0u64..1 << 40, billed in 0u64..1 << 40, tolerance in 0u64..=1_000_000
    ) {
        let subject = Subject { at: 1, model: "m".to_owned(), key: None };
        let total = Total { calls: 1, input: counted, ..Total::default() };
        let text = format!("day,model,input_tokens\n1970-01-02,m,{billed}\n");
        let books = BTreeMap::from([(subject, Counted(total))]);
        let lines = reconcile(&read(&text).unwrap(), &books, Tolerance(tolerance));
        let within = u128::from(counted.abs_diff(billed)) * 1_000_000 <= u128::from(tolerance) * u128::from(counted);
        prop_assert_eq!(lines[0].state == State::Agrees, within);
    }

    #[test]
    fn no_text_brings_the_reader_down_and_each_mistake_has_a_place_in_it(text in "[\"0-9,.\n\rTZ:a-c-]{0,80}") {
        let text = format!("day,model,cost\n2026-01-01,{text}");
        if let Err(faults) = Bill::read("f", &text, &Columns::default()) {
            let lines = u32::try_from(text.matches('\n').count()).unwrap() + 1;
            prop_assert!(!faults.is_empty());
            prop_assert!(faults.iter().all(|fault| (1..=lines).contains(&fault.line) && fault.column >= 1));
        }
    }
}

#[test]
fn mistakes_are_told_all_at_once_with_place_and_mend() {
    let told = read("day,model,Cost,requests,requests\n").unwrap_err();
    assert!(
        told[0].starts_with("bill.csv:1:11: Cost: no such column; there are day or hour, model"),
        "{told:?}"
    );
    assert!(told[0].ends_with("say what it is with --column NAME=Cost, or --ignore Cost"), "{told:?}");
    assert!(told[1].starts_with("bill.csv:1:25: requests: stands here twice"), "{told:?}");
    let text = "day,model,requests,cost\n2026-01-01,m,7,0.1\n2026-13-01,m,-7,$1\n2026-01-01,,1,1\n2026-01-01,m,1,1\n2026-01-02,m,1\n";
    let told = read(text).unwrap_err();
    for expected in [
        "bill.csv:3:1: day: \"2026-13-01\" is no time; write a day such as 2026-01-31",
        "bill.csv:3:14: requests: \"-7\" is not a whole number",
        "bill.csv:3:17: cost: \"$1\" is not an amount of dollars",
        "bill.csv:4:12: model: is empty",
        "bill.csv:5:1: says the same time, model and key as line 2; sum them up",
        "bill.csv:6:1: has 3 cells, but the heading has 4",
    ] {
        assert!(told.iter().any(|fault| fault.starts_with(expected)), "{expected}\n{told:#?}");
    }
    assert_eq!(told.len(), 6, "{told:#?}");
    assert!(
        read("hour,model,cost\n2026-01-01T00:30:00Z,m,1\n").unwrap_err()[0]
            .contains("is not the start of an hour")
    );
    assert_eq!(read("").unwrap_err(), ["bill.csv:1:1: is empty; the first line names the columns"]);
    assert!(read("day,model\n").unwrap_err()[0].contains("no column counts anything"));
    assert!(
        read("day,model,cost\n2026-01-01,\"m,1\n").unwrap_err()[0]
            .starts_with("bill.csv:2:12: this quotation")
    );
}

#[test]
fn columns_and_models_may_have_the_providers_names() {
    let columns = Columns {
        renamed: BTreeMap::from([
            ("Usage (in)".to_owned(), "input_tokens".to_owned()),
            ("Date".to_owned(), "day".to_owned()),
        ]),
        ignored: ["Project".to_owned()].into(),
    };
    let text = "Date,Project,model,Usage (in)\n2026-01-01,x,large-2026,3\n2026-01-01,y,fast,4\n2026-01-01,z,vendor/large,5\n";
    let bill = Bill::read("f", text, &columns).unwrap();
    let theirs = [("fast", "vendor/fast"), ("large", "vendor/large")]
        .map(|(ours, theirs)| (ours.to_owned(), theirs.to_owned()));
    let given = BTreeMap::from([("large-2026".to_owned(), "large".to_owned())]);
    let names = Names::new(theirs.into(), given);
    let bill = bill.named(&names);
    let sums: Vec<_> = bill
        .lines
        .iter()
        .map(|(subject, billed)| {
            (subject.model.as_str(), billed.figures[&Figure::Input].amount, billed.lines.clone())
        })
        .collect();
    assert_eq!(sums, [("vendor/fast", 4, vec![3]), ("vendor/large", 8, vec![2, 4])]);
    assert_eq!([names.of_ours("fast"), names.of_ours("gone")], ["vendor/fast", "gone"]);
}

#[test]
fn a_cost_agrees_as_far_as_the_bill_has_digits_and_ours_are_rounded_up() {
    let subject = |model: &str| Subject { at: 20_454, model: model.to_owned(), key: None };
    let total = |calls, cost| Counted(Total { calls, cost, ..Total::default() });
    let books = BTreeMap::from([
        (subject("cents"), total(9, 1_234_999_999)),
        (subject("off"), total(9, 1_246_000_000)),
        (subject("silent"), total(9, 7)),
    ]);
    let bill = read(
        "day,model,cost,requests\n2026-01-01,cents,1.23,\n2026-01-01,off,1.24,9\n2026-01-01,silent,,9\n",
    )
    .unwrap();
    let lines = reconcile(&bill, &books, Tolerance::default());
    assert_eq!(states(&lines), [State::Agrees, State::Differs, State::Agrees]);
    assert_eq!(lines[1].figures[&Figure::Cost].percent().unwrap(), "-0.48");
    let exact = read("day,model,cost\n2026-01-01,off,1.245999989\n2026-01-01,cents,1.234999989\n2026-01-01,silent,0.00000000749\n").unwrap();
    assert_eq!(
        states(&reconcile(&exact, &books, Tolerance::default())),
        [State::Agrees, State::Differs, State::Agrees]
    );
    assert_eq!("0.5".parse(), Ok(Tolerance(5_000)));
    for bad in ["", "-1", "101", "1e1", "0.00001"] {
        assert!(bad.parse::<Tolerance>().is_err(), "{bad}");
    }
}
