//! Derives the UI's appearance from settings and the terminal's environment variables.

use subscope_tui::{BudgetLimits, Palette, Settings};

use crate::{environment::Environment, prelude::*};

/// Environment variable with the terminal's colors: `foreground;background`, as numbers of the 16 ANSI colors.
const COLORS_VARIABLE: &str = "COLORFGBG";

pub(super) fn settings(context: &Context) -> Settings {
    let settings = context.settings();
    let ui = &settings.ui;
    Settings {
        detail: settings.subagent_tracing_detail,
        tree: ui.tree,
        alerts: ui.alerts,
        palette: ui.theme.palette().unwrap_or_else(|| guess_palette(&context.environment)),
        style: context.style(None),
        offset_minutes: context.offset_minutes(),
        zone: context.zone().clone(),
        budgets: BudgetLimits { day: settings.budget.day, session: settings.budget.session },
        editor: ["EDITOR", "PAGER"].iter().find_map(|name| context.environment.text(name)),
    }
}

/// Guesses the palette if no theme is configured.
fn guess_palette(environment: &Environment) -> Palette {
    let has_256 = environment.get("COLORTERM").is_some()
        || environment
            .text("TERM")
            .is_some_and(|term| term.contains("256") || term.contains("kitty") || term.contains("ghostty"));
    // 0 to 6 and 8 are dark in all common themes.
    let background = environment.text(COLORS_VARIABLE);
    let background = background.as_deref().and_then(|colors| colors.rsplit(';').next()?.parse::<u8>().ok());
    match background {
        Some(7 | 9..=15) => Palette::Light,
        _ if has_256 => Palette::Dark,
        _ => Palette::Sixteen,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn palette_follows_what_the_terminal_tells() {
        let of = |variables: &[(&str, &str)]| guess_palette(&Environment::of(Path::new("/"), variables));
        assert_eq!(of(&[("TERM", "xterm-256color")]), Palette::Dark);
        assert_eq!(of(&[("TERM", "linux")]), Palette::Sixteen);
        assert_eq!(of(&[("TERM", "xterm"), ("COLORTERM", "truecolor")]), Palette::Dark);
        assert_eq!(of(&[("TERM", "xterm-256color"), (COLORS_VARIABLE, "0;15")]), Palette::Light);
        assert_eq!(of(&[("TERM", "xterm-256color"), (COLORS_VARIABLE, "15;default;0")]), Palette::Dark);
    }
}
