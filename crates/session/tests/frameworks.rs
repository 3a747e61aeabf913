//! Spans of agent frameworks give the tree of what their programs did, in whatever order they come.

#![allow(clippy::unwrap_used)]

use subscope_model::Tree;
use subscope_testkit::{
    frameworks::{ASPECTS, deliveries, facts_of_trees, framework_recordings, right_aspects},
    sessions::{LATER, Part, now, options, read},
};

fn trees(requests: &[String]) -> Vec<Tree> {
    let lines = requests.iter().map(|line| format!("{line}\n")).collect::<String>();
    let router = read(&[Part::new("otlp.jsonl", lines)], options(false));
    let prices = subscope_model::PriceTable::default();
    router.sessions().filter_map(|session| router.tree(session, &now(LATER, &prices))).collect()
}

#[test]
fn table() {
    let (mut right, mut whole) = (0, 0);
    for recording in framework_recordings() {
        let trees = trees(&recording.requests);
        let aspects = right_aspects(&trees, &recording.truth);
        let words: Vec<String> = ASPECTS
            .iter()
            .zip(aspects)
            .map(|(word, is)| format!("{}{word}", if is { "+" } else { "-" }))
            .collect();
        right += aspects.iter().filter(|is| **is).count();
        whole += usize::from(aspects.iter().all(|is| *is));
        println!("{:40} {}", recording.name, words.join(" "));
        if std::env::var("SHOW").is_ok_and(|show| recording.name.contains(&show)) {
            for tree in &trees {
                println!("{}", subscope_testkit::sessions::sketch(tree));
                for row in &tree.agents {
                    println!(
                        "  {} {:?} {:?} {:?} {:?}",
                        row.id,
                        row.agent_type,
                        row.status,
                        row.evidence,
                        row.usage.map(|u| u.kinds())
                    );
                }
            }
            println!("{}", serde_json::to_string(&recording.truth["agents"]).unwrap());
        }
    }
    println!("right {right} whole {whole}");
}

#[test]
fn any_order_gives_the_same_rows() {
    let mut wrong = Vec::new();
    for recording in framework_recordings() {
        let expected = facts_of_trees(&trees(&recording.requests));
        for (way, requests) in deliveries(&recording.requests) {
            let found = facts_of_trees(&trees(&requests));
            if found != expected {
                wrong.push(format!("{} {way}:\n - {expected}\n + {found}", recording.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
}
