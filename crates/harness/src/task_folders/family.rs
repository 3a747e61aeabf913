//! The extensions: what differs between them is data.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
};

use subscope_decode::{Dialect, DialectSpec, LinesDecoder};
use subscope_model::ToolClass;

use super::{layout, lines, stated, tools};
use crate::{
    Bundle, Harness, HeadLine, Home, Place, SelfReport, SessionFiles, StatedTotal, TaskBundle, Variables,
    harness::{folder_in, user_home},
};

/// The extensions.
pub(super) static MEMBERS: &[&TaskExtension] = &[&CLINE_TASKS, &ROO, &KILO_TASKS];

/// An extension that keeps its tasks in folders.
#[derive(Debug)]
pub struct TaskExtension {
    pub(super) name: &'static str,
    title: &'static str,
    /// Its id, which is the name of its folder in those of editors.
    pub(super) extension: &'static str,
    /// Folders below the user's home that it uses beside those of editors.
    others: &'static [&'static str],
    dialects: &'static [Dialect],
    pub(super) bundle: Bundle,
    gaps: &'static [&'static str],
    unstoppable: &'static str,
}

/// Makes an extension of its row: the module of its dialect, and the extension.
macro_rules! extension {
    (
        $(#[$words:meta])*
        $member:ident, $module:ident: $name:literal, $title:literal, id: $id:literal, others: $others:expr, gaps: [$($gap:literal),*]
    ) => {
        #[doc = concat!("The dialect of ", $title, ".")]
        pub mod $module {
            use super::*;

            /// The documents of a task and of those below it, each a line.
            pub const TASKS: Dialect = Dialect::new(&tasks($name, concat!($name, ".tasks")));
        }

        $(#[$words])*
        pub static $member: TaskExtension = TaskExtension {
            name: $name,
            title: $title,
            extension: $id,
            others: $others,
            dialects: &[$module::TASKS],
            bundle: Bundle::Tasks(TaskBundle {
                about: "history_item.json",
                parent: "parentTaskId",
                documents: &[
                    ("history_item.json", concat!($name, ".task.about")),
                    ("task_metadata.json", concat!($name, ".task.metadata")),
                    ("ui_messages.json", concat!($name, ".task.messages")),
                    ("api_conversation_history.json", concat!($name, ".task.history")),
                ],
            }),
            gaps: &[
                concat!("not run here: what is read of ", $title, " is known from public sources"),
                "calls have no times where the messages of the conversation have none",
                "whether a command waits for an approval or runs is not known: its question stays while it runs; that other calls and questions wait is shown",
                $($gap),*
            ],
            unstoppable: concat!("no way to end one of the agents of ", $title, " was tried"),
        };
    };
}

extension! {
    /// Cline's extension up to version 3, and its program up to version 1. Later ones write what the CLI does.
    CLINE_TASKS, cline_vscode: "cline-vscode", "Cline for VS Code", id: "saoudrizwan.claude-dev",
    others: &[".cline/data"],
    gaps: ["of an agent there are the task, counters and the result: neither its calls nor the call that started it"]
}

extension! {
    /// Roo Code.
    ROO, roo: "roo", "Roo Code", id: "rooveterinaryinc.roo-cline", others: &[],
    gaps: [
        "versions without a `history_item.json` in each task keep the parents of tasks in the editor's own database: their tasks are sessions of their own",
        "no file names the model"
    ]
}

extension! {
    /// The extension of Kilo Code up to version 5. Later ones keep their sessions in the database of Kilo CLI.
    KILO_TASKS, kilo_vscode: "kilo-vscode", "Kilo Code for VS Code", id: "kilocode.kilo-code", others: &[],
    gaps: [
        "versions without a `history_item.json` in each task keep the parents of tasks in the editor's own database: their tasks are sessions of their own",
        "no file names the model"
    ]
}

/// The dialect of an extension.
const fn tasks(harness: &'static str, name: &'static str) -> DialectSpec {
    DialectSpec {
        harness: Some(harness),
        is_main: true,
        is_ingestible: false,
        ..DialectSpec::new(name, |hint| Box::new(LinesDecoder::new(hint.source, lines::TaskLines::new(hint))))
    }
}

impl TaskExtension {
    /// Whether it keeps tasks beside the folders of editors.
    pub(super) fn has_own_data(&self) -> bool {
        !self.others.is_empty()
    }

    /// The dialect of its tasks.
    pub(super) fn dialect(&self) -> Option<Dialect> {
        self.dialects.first().copied()
    }
}

impl Harness for TaskExtension {
    fn name(&self) -> &'static str {
        self.name
    }

    fn title(&self) -> &'static str {
        self.title
    }

    fn dialects(&self) -> &'static [Dialect] {
        self.dialects
    }

    fn recognize(&self, line: HeadLine<'_>) -> Option<Dialect> {
        lines::is_of(line.object, self.name).then(|| self.dialect()).flatten()
    }

    fn tool_class(&self, tool: &str) -> ToolClass {
        tools::class(tool)
    }

    /// Returns the extension's folder in VS Code's, which is a portable one where `VSCODE_PORTABLE` names it.
    fn home(&self, variables: Variables<'_>) -> Home {
        let variable = layout::PORTABLE;
        let chosen = folder_in(variables, variable);
        let is_chosen = chosen.is_some();
        let folder = match chosen {
            // One of its own folders, as those of other editors are.
            Some(folder) if layout::is_folder(&folder, self) => folder,
            Some(folder) => folder.join(layout::IN_PORTABLE).join(self.extension),
            None => user_home(variables).join(layout::EDITORS[0]).join(self.extension),
        };
        Home { folder, variable, is_chosen }
    }

    fn other_homes(&self, variables: Variables<'_>) -> Vec<PathBuf> {
        let user = user_home(variables);
        let of_editors = layout::EDITORS.iter().map(|editor| user.join(editor).join(self.extension));
        of_editors.chain(self.others.iter().map(|other| user.join(other))).collect()
    }

    fn roots(&self, variables: Variables<'_>) -> Vec<PathBuf> {
        vec![self.home(variables).folder]
    }

    fn classify(&self, path: &Path) -> Option<Place> {
        layout::task_of(path, self).map(|task| layout::place(task, self))
    }

    fn classify_below(&self, _: &Path, path: &Path) -> Option<Place> {
        self.classify(path)
    }

    fn bundle(&self, path: &Path) -> Option<&'static Bundle> {
        let own = MEMBERS.iter().copied().find(|member| member.name == self.name)?;
        layout::is_tasks(path, self).then_some(&own.bundle)
    }

    fn target(&self, path: &Path) -> Option<SessionFiles> {
        let folder = if layout::task_of(path, self).is_some() { path } else { path.parent()? };
        Some(layout::files(folder, layout::task_of(folder, self)?, self))
    }

    fn session_files(&self, _: &Path, path: &Path, session: &str) -> SessionFiles {
        layout::files(path, session, self)
    }

    fn session_of_folder(&self, _: &Path, _: &Path) -> Option<SessionFiles> {
        None
    }

    fn skips_folder(&self, name: &OsStr) -> bool {
        name == "checkpoints"
    }

    fn transcripts_of(&self, root: &Path, session: &str) -> Vec<PathBuf> {
        let task = root.join(layout::TASKS).join(session);
        (layout::task_of(&task, self).is_some() && task.is_dir()).then_some(task).into_iter().collect()
    }

    fn gaps(&self) -> &'static [&'static str] {
        self.gaps
    }

    fn self_report(&self) -> Option<&'static SelfReport> {
        let is_of = |total: &StatedTotal| self.dialects.iter().any(|own| total.dialects.contains(own));
        stated::SELF_REPORT.totals.iter().any(is_of).then_some(&stated::SELF_REPORT)
    }

    fn why_unstoppable(&self) -> Option<&'static str> {
        Some(self.unstoppable)
    }
}
