//! The README as registries show it: without the repository around it, so with links that are complete.

/// Where the repository's files and pictures of a version are.
const FILES: &str = "https://github.com/subscope/subscope/blob/v";
const RAW: &str = "https://raw.githubusercontent.com/subscope/subscope/v";

/// Returns a Markdown text of the repository's root whose relative links name the files of a version.
pub(super) fn with_complete_links(markdown: &str, version: &str) -> String {
    let mut out = String::with_capacity(markdown.len());
    let mut rest = markdown;
    while let Some((before, after)) = rest.split_once("](") {
        out.push_str(before);
        out.push_str("](");
        let target = after.split(')').next().unwrap_or(after);
        if is_relative(target) {
            out.push_str(if is_picture(&out) { RAW } else { FILES });
            out.push_str(version);
            out.push('/');
        }
        out.push_str(target);
        rest = &after[target.len()..];
    }
    out + rest
}

/// Whether a link's target is a file of the repository.
fn is_relative(target: &str) -> bool {
    !target.starts_with('#') && !target.contains("://") && !target.starts_with("mailto:")
}

/// Whether a text that ends in `](` ends in the beginning of a picture: `![…](`.
fn is_picture(text: &str) -> bool {
    let mut depth = 0_u32;
    for (at, character) in text.char_indices().rev().skip(1) {
        match character {
            ']' => depth += 1,
            '[' => depth = depth.saturating_sub(1),
            _ => continue,
        }
        if depth == 0 {
            return text[..at].ends_with('!');
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::root;

    #[test]
    fn links_of_the_readme_are_complete_and_lead_to_files_that_exist() {
        let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
        let complete = with_complete_links(&readme, "1.2.3");
        let targets = |text: &str| -> Vec<String> {
            let after = text.split("](").skip(1);
            after.map(|after| after.split(')').next().unwrap_or_default().to_owned()).collect()
        };
        assert_eq!(targets(&complete).len(), targets(&readme).len());
        let (mut files, mut pictures) = (0, 0);
        for target in targets(&complete) {
            assert!(target.starts_with("https://"), "{target}");
            let file = target.strip_prefix(&format!("{FILES}1.2.3/")).inspect(|_| files += 1);
            let file =
                file.or_else(|| target.strip_prefix(&format!("{RAW}1.2.3/")).inspect(|_| pictures += 1));
            let Some(file) = file else { continue };
            assert!(root().join(file.split('#').next().unwrap_or(file)).exists(), "{target}");
        }
        assert!(files >= 15 && pictures == 3, "{files} files, {pictures} pictures");
    }

    #[test]
    fn pictures_are_told_from_links() {
        let complete =
            with_complete_links("![a [b]\nc](x.png) [d](y.md#e) [f](#g) [h](https://i.example/j) k](l", "1");
        let expected = format!(
            "![a [b]\nc]({RAW}1/x.png) [d]({FILES}1/y.md#e) [f](#g) [h](https://i.example/j) k]({FILES}1/l"
        );
        assert_eq!(complete, expected);
    }
}
