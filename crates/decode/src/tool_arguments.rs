//! Short descriptions of tool calls, from arguments under the names that tools commonly give them.

use std::borrow::Cow;

use serde::Deserialize;

use crate::lenient::{Num, Str};

/// How many characters of a command a short detail shows (requirement 2.4).
const DETAIL_CHARACTERS: usize = 40;

/// The arguments of a call that name its target.
#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub struct ToolArguments<'a> {
    #[serde(alias = "filePath")]
    file_path: Str<'a>,
    notebook_path: Str<'a>,
    path: Str<'a>,
    offset: Num,
    pattern: Str<'a>,
    command: Str<'a>,
    query: Str<'a>,
    url: Str<'a>,
    skill: Str<'a>,
    to: Str<'a>,
    task_id: Str<'a>,
    agent_id: Str<'a>,
    #[serde(rename = "runId")]
    run_id: Str<'a>,
}

impl<'a> ToolArguments<'a> {
    /// Reads the arguments of a call; none if they are not a JSON object.
    pub fn parse(json: &'a str) -> Self {
        serde_json::from_str(json).unwrap_or_default()
    }

    /// Returns the file, under the names of file tools.
    pub fn file(&self) -> Option<&Cow<'a, str>> {
        self.file_path.0.as_ref().or(self.notebook_path.0.as_ref()).or(self.path.0.as_ref())
    }

    /// Returns the line at which a file is read (1-based), under the name of tools that read files.
    pub fn line(&self) -> Option<u64> {
        self.offset.0.filter(|line| *line > 0)
    }

    /// Returns the id of the run that the call starts, if the tool is an agent.
    pub fn run_id(&self) -> Option<&Cow<'a, str>> {
        self.run_id.0.as_ref().filter(|id| !id.is_empty())
    }

    /// Returns a short description of what the call works on: a file's base name, a pattern, the beginning of a
    /// command.
    pub fn detail(self) -> Option<Cow<'a, str>> {
        let file = self.file_path.0.or(self.notebook_path.0);
        file.map(base_name)
            .or(self.pattern.0)
            .or(self.command.0.map(first_characters))
            .or(self.query.0.map(first_characters))
            .or(self.url.0)
            .or(self.path.0.map(base_name))
            .or(self.skill.0)
            .or(self.to.0)
            .or(self.task_id.0)
            .or(self.agent_id.0)
    }
}

fn base_name(path: Cow<'_, str>) -> Cow<'_, str> {
    let at = path.trim_end_matches(['/', '\\']).rfind(['/', '\\']).map_or(0, |slash| slash + 1);
    match path {
        Cow::Borrowed(path) => Cow::Borrowed(path.get(at..).unwrap_or(path)),
        Cow::Owned(path) => Cow::Owned(path.get(at..).unwrap_or(&path).to_owned()),
    }
}

/// Returns the beginning of a text, marked if that is not all.
pub(crate) fn first_characters(text: Cow<'_, str>) -> Cow<'_, str> {
    let Some((end, _)) = text.char_indices().nth(DETAIL_CHARACTERS) else { return text };
    Cow::Owned(format!("{}…", text.get(..end).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_of_a_file_is_a_positive_number() {
        for (arguments, line) in [
            (r#"{"file_path":"/a","offset":40}"#, Some(40)),
            (r#"{"filePath":"/a","offset":1,"limit":5}"#, Some(1)),
            (r#"{"path":"/a","offset":0}"#, None),
            (r#"{"path":"/a","offset":-3}"#, None),
            (r#"{"path":"/a","offset":"40"}"#, None),
            (r#"{"path":"/a"}"#, None),
        ] {
            let parsed = ToolArguments::parse(arguments);
            let file = parsed.file().map(|file| file.as_ref());
            assert_eq!((file, parsed.line()), (Some("/a"), line), "{arguments}");
        }
    }
}
