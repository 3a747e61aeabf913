//! Writes the lines of a simulated session into their sources, and counts them.

use std::io;

use super::Play;
use crate::corpus::{Dialects, Forwarding, Source, wire};

impl Play<'_> {
    /// A user line: its content and further fields for the transcript and, where the stream has one like it, for the
    /// stream.
    pub(super) fn say_user(
        &mut self,
        number: usize,
        (content, extra): (&str, &str),
        stream: Option<(&str, &str)>,
    ) -> io::Result<()> {
        let uuid = self.random.uuid();
        let actor = &self.actors[number];
        let place = (uuid.as_str(), self.now);
        wire::user_entry(
            &mut self.line,
            &self.head,
            actor.tag(),
            actor.last_uuid.as_deref(),
            place,
            content,
            extra,
        );
        self.put_own(number)?;
        if let Some((content, extra)) = stream.filter(|_| self.shows(number, false)) {
            let tag = self.actors[number].tag();
            wire::user_line(&mut self.line, &self.head, tag, place, content, extra);
            self.put(&Source::Stream)?;
        }
        self.actors[number].last_uuid = Some(uuid);
        Ok(())
    }

    pub(super) fn progress(&mut self, number: usize, tool: &str) -> io::Result<()> {
        let usage = self.actors[number].task_usage(self.now);
        let rest =
            format!(",\"description\":\"Running {tool}\",\"usage\":{usage},\"last_tool_name\":\"{tool}\"");
        self.task(number, "task_progress", &rest)
    }

    /// A `task_*` line; the root is no task.
    pub(super) fn task(&mut self, number: usize, subtype: &str, rest: &str) -> io::Result<()> {
        let Some(tag) = self.actors[number].tag().filter(|_| self.options.dialects == Dialects::All) else {
            return Ok(());
        };
        let uuid = self.random.uuid();
        wire::task_line(&mut self.line, &self.head, tag, subtype, rest, &uuid);
        self.put(&Source::Stream)
    }

    pub(super) fn hook_tool(
        &mut self,
        number: Option<usize>,
        event: &str,
        (name, input, id): (&str, &str, &str),
        rest: &str,
    ) -> io::Result<()> {
        if !self.tells_all() {
            return Ok(());
        }
        let middle =
            format!(",\"tool_name\":\"{name}\",\"tool_input\":{input}{rest},\"tool_use_id\":\"{id}\"");
        self.hook(number, event, &middle)
    }

    pub(super) fn hook(&mut self, number: Option<usize>, event: &str, rest: &str) -> io::Result<()> {
        if !self.tells_all() {
            return Ok(());
        }
        let tag = number.and_then(|number| self.actors[number].tag());
        wire::hook(&mut self.line, &self.head, tag, event, rest);
        self.put(&Source::Hooks)
    }

    pub(super) fn tells_all(&self) -> bool {
        self.options.dialects == Dialects::All
    }

    /// Whether the stream has this actor's lines.
    pub(super) fn shows(&self, number: usize, is_text: bool) -> bool {
        let visible = match (self.options.forwarding, self.actors[number].made.depth) {
            (Forwarding::All, _) | (_, 0) => true,
            (Forwarding::FirstLevel, 1) => !is_text,
            (Forwarding::FirstLevel, _) => false,
        };
        visible && self.tells_all()
    }

    pub(super) fn put_meta(&mut self, number: usize, finished: bool) -> io::Result<()> {
        let actor = &self.actors[number];
        let (Some(tag), Source::Agent(id)) = (actor.tag(), &actor.source) else { return Ok(()) };
        let depth = actor.made.depth;
        let parent = actor.made.parent.as_deref().filter(|_| depth > 1);
        let source = Source::Meta(id.clone());
        wire::meta(&mut self.line, tag, parent, depth, actor.model, finished);
        self.put(&source)
    }

    /// Writes the current line into the actor's transcript.
    pub(super) fn put_own(&mut self, number: usize) -> io::Result<()> {
        let source = self.actors[number].source.clone();
        let bytes = self.line.len() as u64 + 1;
        self.actors[number].written += bytes;
        self.made.transcript_lines += 1;
        self.made.transcript_bytes += bytes;
        self.put(&source)
    }

    pub(super) fn put(&mut self, source: &Source) -> io::Result<()> {
        match source {
            Source::Stream => self.made.stream_lines += 1,
            Source::Hooks => self.made.hook_lines += 1,
            Source::Main | Source::Agent(_) | Source::Meta(_) => {}
        }
        let done = self.out.line(source, self.now, &self.line);
        self.line.clear();
        done
    }
}
