//! The one table of keys: what `?` shows, what is done, and what the tests go through.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// What a key does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// One up.
    Up,
    /// One down.
    Down,
    /// Closes a branch, or goes to the parent; back in time where there is a time axis.
    Left,
    /// Opens a branch, or goes in; on in time where there is a time axis.
    Right,
    /// A page up.
    PageUp,
    /// A page down.
    PageDown,
    /// To the first.
    First,
    /// To the last.
    Last,
    /// To the next panel.
    NextPanel,
    /// To the panel before.
    PreviousPanel,
    /// Goes in.
    Enter,
    /// Goes out, or gives up what was begun.
    Back,
    /// The tree and the selected agent.
    Agents,
    /// Everybody against the wall clock.
    Timeline,
    /// Everything that happens.
    Feed,
    /// Figures.
    Summary,
    /// The next level of detail.
    Detail,
    /// Shows or hides the tree.
    Tree,
    /// Folds or unfolds a branch.
    Fold,
    /// Another order of siblings.
    Sort,
    /// Which agents or kinds of events are shown.
    Filter,
    /// Whose events are shown.
    Scope,
    /// Asks for words to look for.
    Search,
    /// To the next hit.
    NextHit,
    /// To the hit before.
    PreviousHit,
    /// Goes along with whoever does something.
    Follow,
    /// To the call that started the agent.
    Spawn,
    /// To the newest alert.
    Alert,
    /// Asks an agent to stop.
    Stop,
    /// Opens the agent's whole text elsewhere.
    Open,
    /// Copies.
    Copy,
    /// Opens the page.
    Page,
    /// Halts time, and lets it go on.
    Pause,
    /// One event back.
    StepBack,
    /// One event on.
    StepOn,
    /// A part of the session back.
    JumpBack,
    /// A part of the session on.
    JumpOn,
    /// Slower.
    Slower,
    /// Faster.
    Faster,
    /// Back to now.
    Now,
    /// Closer.
    ZoomIn,
    /// Farther.
    ZoomOut,
    /// Other colours.
    Theme,
    /// The keys.
    Help,
    /// Puts the program to sleep.
    Suspend,
    /// Ends it.
    Quit,
}

/// Where in the help a key stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// Going about.
    Move,
    /// What is shown.
    Show,
    /// Finding.
    Find,
    /// Doing.
    Act,
    /// Time.
    Time,
}

impl Group {
    /// Every group, in order.
    pub const ALL: [Self; 5] = [Self::Move, Self::Show, Self::Find, Self::Act, Self::Time];

    /// What it is called.
    pub fn title(self) -> &'static str {
        match self {
            Self::Move => "move",
            Self::Show => "show",
            Self::Find => "find",
            Self::Act => "act",
            Self::Time => "time",
        }
    }
}

/// A line of the table.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// What is pressed; any of them.
    pub codes: &'static [(KeyCode, KeyModifiers)],
    /// How people read it.
    pub label: &'static str,
    /// What it does, in a few words.
    pub what: &'static str,
    /// What it does.
    pub action: Action,
    /// Where in the help it stands.
    pub group: Group,
}

const NONE: KeyModifiers = KeyModifiers::NONE;
const CONTROL: KeyModifiers = KeyModifiers::CONTROL;

macro_rules! keys {
    ($($group:ident $action:ident $label:literal $what:literal [$(($code:expr, $modifiers:expr)),+ $(,)?])*) => {
        &[$(Key {
            codes: &[$(($code, $modifiers)),+],
            label: $label,
            what: $what,
            action: Action::$action,
            group: Group::$group,
        }),*]
    };
}

use KeyCode::Char;

/// All keys.
pub static KEYS: &[Key] = keys! {
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
};

/// What a key does; `None` for one that does nothing.
pub fn action(event: KeyEvent) -> Option<Action> {
    // A letter's case says all about Shift.
    let modifiers = event.modifiers.difference(KeyModifiers::SHIFT);
    let is_meant = |key: &&Key| key.codes.contains(&(event.code, modifiers));
    KEYS.iter().find(is_meant).map(|key| key.action)
}

/// How people read an action's key.
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
            assert!(key.label.chars().count() <= 8 && key.what.chars().count() <= 34, "{}", key.what);
        }
    }
}
