//! The table of key bindings: used by the `?` help, by input handling and by the tests.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

choices! {
    /// A section of the key help.
    pub enum KeyGroup {
        /// Navigation.
        Move = "move",
        /// Views and display options.
        Show = "show",
        /// Search and jumps.
        Find = "find",
        /// Actions on the selection or the program.
        Act = "act",
        /// Time travel and playback.
        Time = "time",
    }
}

/// A key binding.
#[derive(Clone, Copy, Debug)]
pub struct KeyBinding {
    /// Key codes with modifiers; any of them triggers the action.
    pub codes: &'static [(KeyCode, KeyModifiers)],
    /// The keys as shown to people.
    pub label: &'static str,
    /// The help text.
    pub help: &'static str,
    /// The triggered action.
    pub action: Action,
    /// The help section it is listed in.
    pub group: KeyGroup,
}

const NONE: KeyModifiers = KeyModifiers::NONE;
const CONTROL: KeyModifiers = KeyModifiers::CONTROL;

/// Declares the actions with their keys: help section, action, label, help text, key codes.
macro_rules! keys {
    ($($group:ident $action:ident $label:literal $help:literal [$(($code:expr, $modifiers:expr)),+ $(,)?])*) => {
        /// An action that a key triggers.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Action {
            $(#[doc = $help] $action,)*
        }

        /// All key bindings.
        pub static KEYS: &[KeyBinding] = &[$(KeyBinding {
            codes: &[$(($code, $modifiers)),+],
            label: $label,
            help: $help,
            action: Action::$action,
            group: KeyGroup::$group,
        }),*];
    };
}

use KeyCode::Char;

keys! {
    Move Up "↑ k" "up" [(KeyCode::Up, NONE), (Char('k'), NONE)]
    Move Down "↓ j" "down" [(KeyCode::Down, NONE), (Char('j'), NONE)]
    Move Left "← h" "fold, or to the parent; earlier" [(KeyCode::Left, NONE), (Char('h'), NONE)]
    Move Right "→ l" "unfold, or go in; later" [(KeyCode::Right, NONE), (Char('l'), NONE)]
    Move PageUp "PgUp ^b" "a page up" [(KeyCode::PageUp, NONE), (Char('b'), CONTROL), (Char('u'), CONTROL)]
    Move PageDown "PgDn ^f" "a page down" [(KeyCode::PageDown, NONE), (Char('f'), CONTROL), (Char('d'), CONTROL)]
    Move First "Home" "to the first" [(KeyCode::Home, NONE)]
    Move Last "End G" "to the last" [(KeyCode::End, NONE), (Char('G'), NONE)]
    Move NextPanel "Tab" "next panel" [(KeyCode::Tab, NONE)]
    Move PreviousPanel "⇧Tab" "panel before" [(KeyCode::BackTab, NONE)]
    Move Enter "Enter" "go in" [(KeyCode::Enter, NONE)]
    Move Back "Esc" "go out" [(KeyCode::Esc, NONE), (KeyCode::Backspace, NONE)]
    Show Agents "1" "agents" [(Char('1'), NONE)]
    Show Timeline "2 w" "timeline" [(Char('2'), NONE), (Char('w'), NONE)]
    Show Feed "3 v" "feed" [(Char('3'), NONE), (Char('v'), NONE)]
    Show Summary "4 u" "summary" [(Char('4'), NONE), (Char('u'), NONE)]
    Show Detail "t" "level of detail" [(Char('t'), NONE)]
    Show Tree "T" "show or hide the tree" [(Char('T'), NONE)]
    Show Fold "z" "fold or unfold" [(Char('z'), NONE)]
    Show Sort "S" "order of siblings" [(Char('S'), NONE)]
    Show Filter "F" "which agents, which events" [(Char('F'), NONE)]
    Show Scope "A" "whose events" [(Char('A'), NONE)]
    Show ZoomIn "+" "zoom in" [(Char('+'), NONE), (Char('='), NONE)]
    Show ZoomOut "-" "zoom out" [(Char('-'), NONE)]
    Show Theme "C" "colours" [(Char('C'), NONE)]
    Find Search "/" "search here; Tab: in all history" [(Char('/'), NONE)]
    Find NextHit "n" "next hit" [(Char('n'), NONE)]
    Find PreviousHit "N" "hit before" [(Char('N'), NONE)]
    Find Follow "f" "follow who works" [(Char('f'), NONE)]
    Find Spawn "g" "to the call that started it" [(Char('g'), NONE)]
    Find Alert "a" "to the newest alert" [(Char('a'), NONE)]
    Act Stop "s" "ask the agent to stop" [(Char('s'), NONE)]
    Act Open "e" "open in $EDITOR or $PAGER" [(Char('e'), NONE)]
    Act Copy "y" "copy" [(Char('y'), NONE)]
    Act Page "o" "open the page" [(Char('o'), NONE)]
    Time Pause "space" "pause, go on" [(Char(' '), NONE)]
    Time StepBack "[" "one event back" [(Char('['), NONE)]
    Time StepOn "]" "one event on" [(Char(']'), NONE)]
    Time JumpBack "{" "a tenth back" [(Char('{'), NONE)]
    Time JumpOn "}" "a tenth on" [(Char('}'), NONE)]
    Time Slower "<" "slower" [(Char('<'), NONE)]
    Time Faster ">" "faster" [(Char('>'), NONE)]
    Time Now "L" "back to now" [(Char('L'), NONE)]
    Act Help "?" "these keys" [(Char('?'), NONE), (KeyCode::F(1), NONE)]
    Act Suspend "^z" "to the shell" [(Char('z'), CONTROL)]
    Act Quit "q" "quit" [(Char('q'), NONE), (Char('c'), CONTROL)]
}

/// Returns the action bound to a key, if any.
pub fn action(event: KeyEvent) -> Option<Action> {
    // Terminals report Shift of a letter both in its case and, some, as a modifier: the case is enough.
    let modifiers = event.modifiers.difference(KeyModifiers::SHIFT);
    let is_meant = |key: &&KeyBinding| key.codes.contains(&(event.code, modifiers));
    KEYS.iter().find(is_meant).map(|key| key.action)
}

/// Returns the label of an action's keys.
pub fn label(action: Action) -> &'static str {
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
    fn labels_are_short_enough_for_the_help() {
        for key in KEYS {
            assert!(key.label.chars().count() <= 8 && key.help.chars().count() <= 34, "{}", key.help);
        }
    }
}
