//! The table of key bindings: used by the `?` help, by input handling and by the tests.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// Sections of the key help in display order.
pub(crate) const GROUPS: [&str; 5] = ["move", "show", "find", "act", "time"];

#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyBinding {
    /// Key codes with modifiers; any of them triggers the action.
    pub(crate) codes: &'static [(KeyCode, KeyModifiers)],
    /// The keys as shown to people.
    pub(crate) label: &'static str,
    pub(crate) help: &'static str,
    pub(crate) action: Action,
    /// The help section it is listed in.
    pub(crate) group: &'static str,
}

const NONE: KeyModifiers = KeyModifiers::NONE;
const CONTROL: KeyModifiers = KeyModifiers::CONTROL;

/// Declares the actions with their keys: help section, action, label, help text, key codes.
macro_rules! keys {
    ($($group:literal $action:ident $label:literal $help:literal [$(($code:expr, $modifiers:expr)),+ $(,)?])*) => {
        /// An action that a key triggers.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub(crate) enum Action {
            $(#[doc = $help] $action,)*
        }

        /// All key bindings.
        pub(crate) static KEYS: &[KeyBinding] = &[$(KeyBinding {
            codes: &[$(($code, $modifiers)),+],
            label: $label,
            help: $help,
            action: Action::$action,
            group: $group,
        }),*];
    };
}

use KeyCode::Char;

keys! {
    "move" Up "↑ k" "up" [(KeyCode::Up, NONE), (Char('k'), NONE)]
    "move" Down "↓ j" "down" [(KeyCode::Down, NONE), (Char('j'), NONE)]
    "move" Left "← h" "fold, or go to the parent; earlier" [(KeyCode::Left, NONE), (Char('h'), NONE)]
    "move" Right "→ l" "unfold, or go in; later" [(KeyCode::Right, NONE), (Char('l'), NONE)]
    "move" PageUp "PgUp ^b" "a page up" [(KeyCode::PageUp, NONE), (Char('b'), CONTROL), (Char('u'), CONTROL)]
    "move" PageDown "PgDn ^f" "a page down" [(KeyCode::PageDown, NONE), (Char('f'), CONTROL), (Char('d'), CONTROL)]
    "move" First "Home" "go to the first" [(KeyCode::Home, NONE)]
    "move" Last "End G" "go to the last" [(KeyCode::End, NONE), (Char('G'), NONE)]
    "move" NextPanel "Tab" "next panel" [(KeyCode::Tab, NONE)]
    "move" PreviousPanel "⇧Tab" "previous panel" [(KeyCode::BackTab, NONE)]
    "move" Enter "Enter" "go in" [(KeyCode::Enter, NONE)]
    "move" Back "Esc" "go out" [(KeyCode::Esc, NONE), (KeyCode::Backspace, NONE)]
    "show" Mission "0" "all sessions at a glance" [(Char('0'), NONE)]
    "show" Agents "1" "agents" [(Char('1'), NONE)]
    "show" Timeline "2 w" "timeline" [(Char('2'), NONE), (Char('w'), NONE)]
    "show" Feed "3 v" "feed" [(Char('3'), NONE), (Char('v'), NONE)]
    "show" Summary "4" "summary" [(Char('4'), NONE)]
    "show" Stats "5" "cost and work over days" [(Char('5'), NONE)]
    "show" Compare "6" "compare two sessions or agents" [(Char('6'), NONE)]
    "show" Iterations "7" "iterations of `run`" [(Char('7'), NONE)]
    "show" Detail "t" "change level of detail" [(Char('t'), NONE)]
    "show" Tree "T" "show or hide the tree" [(Char('T'), NONE)]
    "show" Fold "z" "fold or unfold" [(Char('z'), NONE)]
    "show" Calls "x" "unfold into calls" [(Char('x'), NONE)]
    "show" FoldAll "M zM" "fold all" [(Char('M'), NONE)]
    "show" UnfoldAll "R zR" "unfold all; again: into calls" [(Char('R'), NONE)]
    "show" Sort "S" "sort siblings" [(Char('S'), NONE)]
    "show" Filter "F" "filter agents, events, days" [(Char('F'), NONE)]
    "show" Machine "H" "sessions of one other machine" [(Char('H'), NONE)]
    "show" Scope "A" "choose whose events" [(Char('A'), NONE)]
    "show" ZoomIn "+" "zoom in" [(Char('+'), NONE), (Char('='), NONE)]
    "show" ZoomOut "-" "zoom out" [(Char('-'), NONE)]
    "show" Theme "C" "colors" [(Char('C'), NONE)]
    "find" Palette ":" "go to anything, or do it, by name" [(Char(':'), NONE)]
    "find" Search "/" "search here; Tab: in all history" [(Char('/'), NONE)]
    "find" Mark "m" "mark to compare" [(Char('m'), NONE)]
    "find" NextHit "n" "next hit" [(Char('n'), NONE)]
    "find" PreviousHit "N" "previous hit" [(Char('N'), NONE)]
    "find" Follow "f" "follow the agent that works" [(Char('f'), NONE)]
    "find" Spawn "g" "go to the call that started it" [(Char('g'), NONE)]
    "find" Alert "a" "go to what needs you, then alerts" [(Char('a'), NONE)]
    "act" Permit "p" "allow or deny a call" [(Char('p'), NONE)]
    "act" Dismiss "d" "dismiss what the session needs" [(Char('d'), NONE)]
    "act" MarkRead "u" "mark all that ended as read" [(Char('u'), NONE)]
    "act" Stop "s" "ask the agent to stop" [(Char('s'), NONE)]
    "act" Terminal "J" "go to the session's terminal" [(Char('J'), NONE)]
    "act" Open "e" "open in $EDITOR or $PAGER" [(Char('e'), NONE)]
    "act" Copy "y" "copy" [(Char('y'), NONE)]
    "act" Page "o" "open the page" [(Char('o'), NONE)]
    "time" Pause "space" "pause, continue" [(Char(' '), NONE)]
    "time" StepBack "[" "one event back" [(Char('['), NONE)]
    "time" StepOn "]" "one event forward" [(Char(']'), NONE)]
    "time" JumpBack "{" "a tenth back" [(Char('{'), NONE)]
    "time" JumpOn "}" "a tenth forward" [(Char('}'), NONE)]
    "time" Slower "<" "slower" [(Char('<'), NONE)]
    "time" Faster ">" "faster" [(Char('>'), NONE)]
    "time" Now "L" "back to now" [(Char('L'), NONE)]
    "act" Help "?" "list these keys" [(Char('?'), NONE), (KeyCode::F(1), NONE)]
    "act" Suspend "^z" "suspend to the shell" [(Char('z'), CONTROL)]
    "act" Quit "q" "quit" [(Char('q'), NONE), (Char('c'), CONTROL)]
}

/// Returns the action bound to a key, if any.
pub(crate) fn action(event: KeyEvent) -> Option<Action> {
    // Terminals report Shift of a letter both in its case and, some, as a modifier: the case is enough.
    let modifiers = event.modifiers.difference(KeyModifiers::SHIFT);
    let is_meant = |key: &&KeyBinding| key.codes.contains(&(event.code, modifiers));
    KEYS.iter().find(is_meant).map(|key| key.action)
}

/// Returns the help text of an action.
pub(crate) fn help(action: Action) -> &'static str {
    KEYS.iter().find(|key| key.action == action).map_or("", |key| key.help)
}

impl Action {
    /// Its name in the command palette: `zoom in`.
    pub(crate) fn name(self) -> String {
        let mut name = String::new();
        for character in format!("{self:?}").chars() {
            if character.is_uppercase() && !name.is_empty() {
                name.push(' ');
            }
            name.extend(character.to_lowercase());
        }
        name
    }
}

/// Returns the label of an action's keys.
pub(crate) fn label(action: Action) -> &'static str {
    KEYS.iter().find(|key| key.action == action).map_or("", |key| key.label)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_key_means_one_thing() {
        let mut codes = HashSet::new();
        let mut actions = HashSet::new();
        for key in KEYS {
            assert!(GROUPS.contains(&key.group), "{}", key.group);
            assert!(actions.insert(key.action), "{:?} stands twice", key.action);
            for code in key.codes {
                assert!(codes.insert(*code), "{code:?} stands twice");
                assert_eq!(action(KeyEvent::new(code.0, code.1)), Some(key.action));
            }
        }
        assert_eq!(action(KeyEvent::new(Char('G'), KeyModifiers::SHIFT)), Some(Action::Last));
        assert_eq!(action(KeyEvent::new(Char('Q'), NONE)), None);
    }

    #[test]
    fn page_of_the_documentation_lists_every_key() {
        let mut page = "# All keys\n\nGenerated by `cargo xtask types` from the table of keys \
                        (`crates/tui/src/keys.rs`). In the terminal UI, `?` shows this list.\n"
            .to_owned();
        for group in GROUPS {
            page.push_str(&format!("\n## {group}\n\n| key | does |\n|---|---|\n"));
            for key in KEYS.iter().filter(|key| key.group == group) {
                let labels: Vec<String> = key.label.split(' ').map(|label| format!("`{label}`")).collect();
                page.push_str(&format!("| {} | {} |\n", labels.join(" "), key.help));
            }
        }
        page.push_str("\n`^` is Ctrl, `⇧` is Shift.\n");
        subscope_testkit::generated::check("docs/src/keys.md", &page);
    }

    #[test]
    fn labels_are_short_enough_for_the_help() {
        for key in KEYS {
            assert!(key.label.chars().count() <= 8 && key.help.chars().count() <= 34, "{}", key.help);
        }
    }
}
