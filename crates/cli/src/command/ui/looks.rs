//! How the UI looks here: by settings, and by what the environment tells of the terminal.

use subscope_tui::{Palette, Settings};

use crate::{context::Context, environment::Environment};

/// Where terminals tell their colours: `foreground;background`, as numbers of the sixteen.
const GROUND: &str = "COLORFGBG";

/// Returns what holds.
pub(super) fn settings(context: &Context) -> Settings {
    let settings = context.settings();
    let ui = &settings.ui;
    Settings {
        detail: settings.tracing.detail.value,
        tree: ui.tree.value,
        alerts: ui.alerts.value,
        palette: ui.theme.value.unwrap_or_else(|| palette(&context.environment)),
        style: context.style(None),
        offset_minutes: context.offset_minutes(),
        editor: ["EDITOR", "PAGER"].iter().find_map(|name| context.environment.text(name)),
    }
}

/// The palette of a terminal that was not told of.
fn palette(environment: &Environment) -> Palette {
    let has_256 = environment.get("COLORTERM").is_some()
        || environment
            .text("TERM")
            .is_some_and(|term| term.contains("256") || term.contains("kitty") || term.contains("ghostty"));
    // 0 to 6 and 8 are dark in every theme that people use.
    let ground = environment.text(GROUND);
    let ground = ground.as_deref().and_then(|colors| colors.rsplit(';').next()?.parse::<u8>().ok());
    match ground {
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
        let of = |variables: &[(&str, &str)]| palette(&Environment::of(Path::new("/"), variables));
        assert_eq!(of(&[("TERM", "xterm-256color")]), Palette::Dark);
        assert_eq!(of(&[("TERM", "linux")]), Palette::Sixteen);
        assert_eq!(of(&[("TERM", "xterm"), ("COLORTERM", "truecolor")]), Palette::Dark);
        assert_eq!(of(&[("TERM", "xterm-256color"), (GROUND, "0;15")]), Palette::Light);
        assert_eq!(of(&[("TERM", "xterm-256color"), (GROUND, "15;default;0")]), Palette::Dark);
    }
}
