//! Parses tool arguments, leniently where unambiguous. Errors name the invalid argument.

use rmcp::model::JsonObject;
use serde_json::Value;
use subscope_model::{Millis, SessionOrder};

use super::QueryError;

/// Returns an argument as read by `read`; `None` if missing.
fn optional<'a, T>(
    arguments: &'a JsonObject,
    name: &str,
    expected: &str,
    read: impl FnOnce(&'a Value) -> Option<T>,
) -> Result<Option<T>, QueryError> {
    let invalid = || QueryError::Invalid { name: name.to_owned(), expected: expected.to_owned() };
    match arguments.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => read(value).map(Some).ok_or_else(invalid),
    }
}

/// Returns a string argument, trimmed; `None` if missing or blank.
pub(super) fn text<'a>(arguments: &'a JsonObject, name: &str) -> Result<Option<&'a str>, QueryError> {
    let text = optional(arguments, name, "a string", Value::as_str)?;
    Ok(text.map(str::trim).filter(|text| !text.is_empty()))
}

/// Returns a required string argument.
pub(super) fn required<'a>(arguments: &'a JsonObject, name: &str) -> Result<&'a str, QueryError> {
    text(arguments, name)?.ok_or_else(|| QueryError::Missing(name.to_owned()))
}

/// Returns the `limit` argument, or the default; larger values are clamped.
pub(super) fn limit(arguments: &JsonObject, (usual, most): (usize, usize)) -> Result<usize, QueryError> {
    let expected = format!("a whole number from 1 to {most}");
    let limit = optional(arguments, "limit", &expected, |value| whole(value).filter(|number| *number > 0))?;
    Ok(limit.map_or(usual, |number| usize::try_from(number).unwrap_or(most).min(most)))
}

/// Returns a number that is whole: `5`, or `5.0`, which JSON Schema calls an integer too, or the text of one.
fn whole(value: &Value) -> Option<u64> {
    // The largest number up to which doubles hold every whole one.
    const MAX: f64 = 9_007_199_254_740_992.0;
    let whole =
        |number: f64| (number.fract() == 0.0 && (0.0..=MAX).contains(&number)).then_some(number as u64);
    let text = || value.as_str().and_then(|text| text.trim().parse().ok());
    value.as_u64().or_else(|| value.as_f64().or_else(text).and_then(whole))
}

/// Returns a boolean argument; `false` if missing.
pub(super) fn flag(arguments: &JsonObject, name: &str) -> Result<bool, QueryError> {
    optional(arguments, name, "true or false", Value::as_bool).map(Option::unwrap_or_default)
}

/// Returns the `sort` argument; the newest first if missing.
pub(super) fn order(arguments: &JsonObject) -> Result<SessionOrder, QueryError> {
    let names = SessionOrder::ALL.map(SessionOrder::name).join(", ");
    let read = |value: &Value| value.as_str().and_then(SessionOrder::named);
    optional(arguments, "sort", &format!("one of {names}"), read).map(Option::unwrap_or_default)
}

/// Returns the `days` argument; `None` if missing.
pub(super) fn days(arguments: &JsonObject) -> Result<Option<Millis>, QueryError> {
    let read =
        |value: &Value| whole(value).and_then(|days| Millis::try_from(days).ok()).filter(|days| *days > 0);
    optional(arguments, "days", "a whole number from 1", read)
}

/// Returns an array of strings; `None` if missing or empty.
pub(super) fn texts<'a>(arguments: &'a JsonObject, name: &str) -> Result<Option<Vec<&'a str>>, QueryError> {
    let read = |value: &'a Value| value.as_array()?.iter().map(Value::as_str).collect();
    let texts: Option<Vec<&str>> = optional(arguments, name, "an array of strings", read)?;
    Ok(texts.filter(|texts| !texts.is_empty()))
}

/// Returns the page offset of the `after` argument; 0 if missing.
pub(super) fn offset(arguments: &JsonObject) -> Result<usize, QueryError> {
    // Of events it is a number; models may pass one instead of a string elsewhere, too.
    let after = arguments.get("after").filter(|after| !after.is_null() && after.as_str() != Some(""));
    let Some(after) = after else { return Ok(0) };
    let number = whole(after).ok_or(QueryError::NoPage)?;
    Ok(usize::try_from(number).unwrap_or(usize::MAX))
}

/// Splits a query into words and quoted phrases.
pub(super) fn terms(query: &str) -> Vec<String> {
    let pieces = query.split('"').enumerate();
    let terms = pieces.flat_map(|(number, piece)| match number % 2 {
        0 => piece.split_whitespace().map(str::to_owned).collect(),
        _ => vec![piece.to_owned()],
    });
    terms.filter(|term| term.chars().any(char::is_alphanumeric)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn arguments_of_another_type_are_refused_by_name() {
        let arguments = json!({"limit": "x", "live": 1, "session": 2, "kinds": [1], "after": "y", "agent": " ", "sort": "price", "days": 0});
        let arguments = arguments.as_object().unwrap();
        let messages = [
            limit(arguments, (2, 9)).unwrap_err(),
            flag(arguments, "live").unwrap_err(),
            required(arguments, "session").unwrap_err(),
            required(arguments, "agent").unwrap_err(),
            texts(arguments, "kinds").unwrap_err(),
            offset(arguments).unwrap_err(),
            order(arguments).unwrap_err(),
            days(arguments).unwrap_err(),
        ];
        assert_eq!(
            messages.map(|error| error.to_string()),
            [
                "limit has to be a whole number from 1 to 9",
                "live has to be true or false",
                "session has to be a string",
                "agent is missing",
                "kinds has to be an array of strings",
                "after is no `next` of a page",
                "sort has to be one of newest, cost, tokens, duration, agents, calls, errors, denied",
                "days has to be a whole number from 1",
            ]
        );
    }

    #[test]
    fn limits_are_bounded_and_terms_are_words_and_phrases() {
        let limit_of = |value: Value| limit(json!({ "limit": value }).as_object().unwrap(), (2, 9));
        assert_eq!((limit_of(json!(null)), limit_of(json!(500)), limit_of(json!(3))), (Ok(2), Ok(9), Ok(3)));
        assert_eq!(
            (limit_of(json!(5.0)), limit_of(json!("5")), limit_of(json!(" 5.0 "))),
            (Ok(5), Ok(5), Ok(5))
        );
        for wrong in [json!(0), json!(-1), json!(5.5), json!("5.5"), json!("five"), json!("NaN"), json!(true)]
        {
            assert!(limit_of(wrong.clone()).is_err(), "{wrong}");
        }
        let offset_of = |value: Value| offset(json!({ "after": value }).as_object().unwrap());
        for (given, expected) in
            [(json!(null), 0), (json!(""), 0), (json!(7), 7), (json!(7.0), 7), (json!("7"), 7)]
        {
            assert_eq!(offset_of(given.clone()), Ok(expected), "{given}");
        }
        assert_eq!(terms("round \"half cents\" up* - \"\""), ["round", "half cents", "up*"]);
    }
}
