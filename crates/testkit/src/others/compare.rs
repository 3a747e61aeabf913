//! Compares a tree with the truth of a recording, field by field.

use serde_json::Value;

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn accepts(words: &Value, word: &Value) -> bool {
    list(words).contains(word)
}

/// How many calls of an agent have a status by the truth: at least and at most, where a recording accepts several words
/// (a command that exits with another code than 0 is an error here, and a success for some harnesses).
fn bounds(agent: &Value, status: &str) -> (u64, u64) {
    let tools = list(&agent["tools"]);
    let accepting = || tools.iter().filter(|tool| accepts(&tool["status"], &status.into()));
    let certain = accepting().filter(|tool| list(&tool["status"]).len() == 1).count();
    (certain as u64, accepting().count() as u64)
}

/// Returns what differs between a tree and the truth, as JSON; `is_whole` is false if the tree may lack data.
pub fn differences(tree: &Value, truth: &Value, is_whole: bool) -> Vec<String> {
    let mut wrong = Vec::new();
    for field in ["id", "harness", "harness_version"] {
        let (is, should) = (&tree["session"][field], &truth["session"][field]);
        // Gemini CLI and oh-my-pi write their versions nowhere, Kimi Code in what it prints alone.
        let is_versionless =
            ["gemini", "kimi", "omp"].iter().any(|harness| truth["session"]["harness"] == *harness);
        let may_be_silent = !is_whole || field == "harness_version" && is_versionless;
        // What a killed fork printed may have no mark of it.
        let is_family = field == "harness" && !is_whole && should == "kilo" && is == "opencode";
        // What Cline prints names no session.
        let is_unnamed =
            field == "id" && !is_whole && truth["session"]["harness"] == "cline" && is == "unnamed";
        let is_accepted = is == should || is_family || is_unnamed || may_be_silent && is.is_null();
        if !is_accepted {
            wrong.push(format!("session {field}: {is} instead of {should}"));
        }
    }
    let (runs, expected) = (
        tree["session"]["runs"].as_u64().unwrap_or_default(),
        truth["session"]["runs"].as_u64().unwrap_or_default(),
    );
    if runs > expected || is_whole && runs != expected {
        wrong.push(format!("{runs} runs instead of {expected}"));
    }
    for row in list(&tree["agents"]) {
        let id = &row["id"];
        // What Gemini CLI prints names agents by their calls alone.
        if !is_whole && *id == row["spawned_by"] {
            continue;
        }
        let Some(expected) = list(&truth["agents"]).iter().find(|agent| agent["id"] == *id) else {
            wrong.push(format!("{id} is no agent of the session"));
            continue;
        };
        compare_agent(row, expected, &truth["session"]["harness"], is_whole, &mut wrong);
    }
    if is_whole {
        for agent in list(&truth["agents"]) {
            if !list(&tree["agents"]).iter().any(|row| row["id"] == agent["id"]) {
                wrong.push(format!("{} is missing", agent["id"]));
            }
        }
        for field in ["agents", "max_depth", "tool_calls"] {
            let (is, should) = (tree["summary"][field].as_u64(), truth["summary"][field].as_u64());
            let untold = || untold(tree, truth).filter(|(row, _)| has_no_calls(row));
            let missing: u64 = untold().filter_map(|(_, agent)| agent[field].as_u64()).sum();
            let should = should.map(|should| should - missing);
            if is != should {
                wrong.push(format!("summary {field}: {is:?} instead of {should:?}"));
            }
        }
        let own_sum = &tree["summary"]["unattributed_usage"];
        let is_bound = own_sum.is_null() && untold(tree, truth).next().is_some();
        if is_bound && tree["summary"]["usage"]["floor"] != true {
            wrong.push("the sum is no lower bound, and an agent has no tokens".to_owned());
        }
        for sum in ["usage", "unattributed_usage"] {
            for (kind, should) in truth["summary"][sum].as_object().into_iter().flatten() {
                let is = tree["summary"][sum].get(kind).and_then(Value::as_u64).unwrap_or_default();
                let untold = untold(tree, truth).filter(|_| is_bound);
                let untold: u64 = untold.filter_map(|(_, agent)| agent["usage"][kind].as_u64()).sum();
                let should = should.as_u64().map(|should| should - unwritten(truth, kind) - untold);
                if Some(is) != should {
                    wrong.push(format!("{sum} {kind}: {is} instead of {should:?}"));
                }
            }
        }
    }
    wrong
}

/// Returns the tokens of a kind that a recording has no line of: its process was killed before it wrote them.
fn unwritten(truth: &Value, kind: &str) -> u64 {
    let of = |agent: &Value| {
        let written = agent["usage_on_disk"][kind].as_u64()?;
        Some(agent["usage"][kind].as_u64()? - written)
    };
    list(&truth["agents"]).iter().filter_map(of).sum()
}

/// Returns the agents that the disk has no lines of, with their rows, where no other source has their tokens: their process
/// was killed before it wrote any.
fn untold<'t>(tree: &'t Value, truth: &'t Value) -> impl Iterator<Item = (&'t Value, &'t Value)> {
    let row = |agent: &&Value| list(&tree["agents"]).iter().find(|row| row["id"] == agent["id"]);
    let all = list(&truth["agents"]).iter().filter(|agent| agent["on_disk"].is_string());
    all.filter_map(move |agent| Some((row(&agent)?, agent))).filter(|(row, _)| row["usage"].is_null())
}

fn has_no_calls(row: &Value) -> bool {
    list(&row["tools"]).is_empty()
}

/// Whether an incomplete source may report this status of a call: the end may be missing, and Codex's hooks report a
/// failed command as a success.
fn may_be(status: &Value, harness: &Value, is_whole: bool) -> bool {
    !is_whole && (status == "open" || status == "ok" && harness == "codex")
}

fn compare_agent(row: &Value, expected: &Value, harness: &Value, is_whole: bool, wrong: &mut Vec<String>) {
    let id = &row["id"];
    for field in ["parent_id", "spawned_by", "depth", "type", "name", "description", "model", "background"] {
        let (is, should) = (&row[field], &expected[field]);
        if is != should && (is_whole || !is.is_null()) {
            wrong.push(format!("{id} {field}: {is} instead of {should}"));
        }
    }
    let is_unsure = !is_whole && ["lost", "stopped"].contains(&row["status"].as_str().unwrap_or_default());
    if !is_unsure && !accepts(&expected["status"], &row["status"]) {
        wrong.push(format!("{id} status: {} instead of {}", row["status"], expected["status"]));
    }
    for tool in list(&row["tools"]) {
        match list(&expected["tools"]).iter().find(|known| known["id"] == tool["id"]) {
            Some(known)
                if known["name"] == tool["name"]
                    && (accepts(&known["status"], &tool["status"])
                        || may_be(&tool["status"], harness, is_whole)) => {}
            Some(known) => wrong.push(format!("{id} call {tool} instead of {known}")),
            // A source that numbers its calls by itself says how many there are.
            None if !is_whole && tool["id"].is_null() => {}
            None => wrong.push(format!("{id} has no call {tool}")),
        }
    }
    if !is_whole {
        return;
    }
    let is_untold = expected["on_disk"].is_string();
    if is_untold && has_no_calls(row) {
        // Neither calls nor tokens: a source that has one call has all of them.
        for field in ["tool_calls", "tool_errors", "tools_denied", "open_tools"] {
            if row[field] != 0 {
                wrong.push(format!("{id} {field}: {} without calls", row[field]));
            }
        }
        if !row["usage"].is_null() || !row["cost_micro_usd"].is_null() {
            wrong.push(format!("{id} has tokens that are nowhere: {}", row["usage"]));
        }
        return;
    }
    if row["tool_calls"] != expected["tool_calls"] {
        wrong.push(format!("{id} makes {} calls instead of {}", row["tool_calls"], expected["tool_calls"]));
    }
    for (field, status) in [("tool_errors", "error"), ("tools_denied", "denied"), ("open_tools", "open")] {
        let (least, most) = bounds(expected, status);
        if !(least..=most).contains(&row[field].as_u64().unwrap_or_default()) {
            wrong.push(format!("{id} {field}: {} instead of {least} to {most}", row[field]));
        }
    }
    let is_cut = expected["usage_on_disk"].is_object();
    for kind in ["input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens"] {
        if is_untold && row["usage"].is_null() {
            continue;
        }
        if is_cut {
            let (is, should) = (row["usage"][kind].as_u64(), expected["usage_on_disk"][kind].as_u64());
            if is.unwrap_or_default() != should.unwrap_or_default() {
                wrong.push(format!("{id} {kind}: {is:?} instead of {should:?}"));
            }
        } else if row["usage"][kind] != expected["usage"][kind] {
            wrong.push(format!("{id} {kind}: {} instead of {}", row["usage"][kind], expected["usage"][kind]));
        }
    }
    // Where a recording names no cost, the price list may know one.
    let cost = expected["cost_micro_usd"].as_u64();
    let is_listed = cost.is_none() && (harness == "codex" || harness == "qwen");
    if !is_listed && !is_cut && row["cost_micro_usd"].as_u64() != cost {
        wrong.push(format!("{id} costs {} instead of {cost:?}", row["cost_micro_usd"]));
    }
}
