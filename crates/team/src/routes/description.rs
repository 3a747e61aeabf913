//! The OpenAPI document: that of the shared routes, with what differs here, and of the server's own.

use serde_json::{Result, Value};
use utoipa::{
    IntoParams,
    openapi::{OpenApi, RefOr, Response, path::Parameter},
};

use super::{BODY_TYPES, own_routes, shared_routes, stats::GroupParameters};
use crate::read::TeamFilter;

/// Returns the document.
pub(super) fn document() -> Result<Value> {
    let mut document = shared_routes().merge(own_routes()).into_openapi();
    let mut amend = |path: &str, added: &[Parameter], texts: &[(&str, &str)], answers: &[(&str, &str)]| {
        amend(&mut document, path, added, texts, answers);
    };
    let filters = TeamFilter::into_params(|| None);
    let words = "Only sessions with all of these words in title, project, user, id or harness.";
    let listed =
        "subscope.sessions/1, with machine, user, team and project of each; `next` is null on the last page.";
    amend("/api/v1/sessions", &filters, &[("q", words)], &[("200", listed), ("401", "No token.")]);
    let unsupported = "`tool` and `failed` are not supported: a team's server does not store them.";
    amend("/api/v1/search", &filters, &[], &[("400", unsupported)]);
    amend("/api/v1/status", &filters, &[], &[]);
    let sums = "With `by` subscope.groups/1: rows with a name for each dimension, the greatest cost first. Without it \
                subscope.stats/1; `without` names what needs the machines.";
    let zone = "The zone whose days are counted, such as Europe/Berlin; without it, UTC.";
    let answers = [("200", sums), ("400", "An unknown dimension, or an invalid day.")];
    let parameters = [filters, GroupParameters::into_params(|| None)].concat();
    amend("/api/v1/stats", &parameters, &[("time_zone", zone)], &answers);
    let gone = "No such session, its tree is no longer kept, or it is asked for a past time.";
    amend("/api/v1/sessions/{id}/tree", &[], &[], &[("404", gone)]);
    amend("/openapi.json", &[], &[], &[("401", "No token.")]);
    let mut document = BODY_TYPES.describe(&document)?;
    let answer = &mut document["paths"]["/api/v1/stats"]["get"]["responses"]["200"];
    answer["content"]["application/json"]["schema"]["$ref"] = "#/components/schemas/StatsAnswer".into();
    Ok(document)
}

/// Changes the description of a shared route: adds parameters, in place of those of their names, and sets texts of
/// parameters and of answers, by status.
fn amend(
    document: &mut OpenApi,
    path: &str,
    added: &[Parameter],
    texts: &[(&str, &str)],
    answers: &[(&str, &str)],
) {
    let route = document.paths.paths.get_mut(path);
    let Some(operation) = route.and_then(|item| item.get.as_mut()) else { return };
    let parameters = operation.parameters.get_or_insert_default();
    parameters.retain(|known| added.iter().all(|new| new.name != known.name));
    parameters.extend_from_slice(added);
    for (name, text) in texts {
        let named = parameters.iter_mut().filter(|known| known.name == *name);
        named.for_each(|known| known.description = Some((*text).to_owned()));
    }
    for (status, text) in answers {
        let known = operation.responses.responses.entry((*status).to_owned());
        if let RefOr::T(answer) = known.or_insert_with(|| RefOr::T(Response::new(*text))) {
            answer.description = (*text).to_owned();
        }
    }
}
