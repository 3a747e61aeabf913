//! Linked work trees of git: which project a folder belongs to.

use std::{
    fs,
    path::{Component, Path, PathBuf},
};

use subscope_harness::harnesses;
use subscope_model::WorkTree;

/// Most bytes of a file that is looked into: git's, and a project's settings.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// The work tree of a folder, and git's own folder of its repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repository {
    /// The folder that has `.git`.
    pub work_tree: PathBuf,
    /// Git's folder with the settings and objects of the repository; all of its work trees share it.
    pub git: PathBuf,
    /// Whether the work tree is a linked one, made by `git worktree add`.
    pub is_linked: bool,
}

/// Returns the repository of a folder; `None` if it is in none, or cannot be read.
pub fn repository(folder: &Path) -> Option<Repository> {
    let is_plain = folder.is_absolute() && !folder.components().any(|part| part == Component::ParentDir);
    let at = folder.ancestors().filter(|_| is_plain).find(|folder| folder.join(".git").exists())?;
    let own = at.join(".git");
    let work_tree = at.to_owned();
    if !own.is_file() {
        return Some(Repository { work_tree, git: own, is_linked: false });
    }
    // A linked work tree or a submodule: the file names git's folder for it.
    let text = small_file(&own)?;
    let named = normal(&at.join(text.strip_prefix("gitdir:")?.trim()));
    let Some(common) = small_file(&named.join("commondir")) else {
        return Some(Repository { work_tree, git: named, is_linked: false });
    };
    let git = normal(&named.join(common.trim()));
    is_work_tree_of(&named, &own, &git).then_some(Repository { work_tree, git, is_linked: true })
}

/// Whether a repository says itself that a folder of git is that of its work tree. What lies in a folder may come from
/// anywhere, and must not make its sessions those of another project.
fn is_work_tree_of(named: &Path, own: &Path, git: &Path) -> bool {
    let is_in_it = named.parent().is_some_and(|parent| parent == git.join("worktrees"));
    let back = small_file(&named.join("gitdir")).map(|text| named.join(text.trim()));
    let real = |path: &Path| fs::canonicalize(path).ok();
    is_in_it && back.and_then(|back| real(&back)).is_some_and(|back| Some(back) == real(own))
}

/// Returns the linked work tree that a working directory is in, and its project; `None` if it is in none.
pub fn work_tree(cwd: &str) -> Option<WorkTree> {
    made_by_harness(cwd).or_else(|| {
        let Repository { work_tree, git, is_linked } = repository(Path::new(cwd))?;
        let (name, parent) = (git.file_name()?.to_str()?, git.parent()?);
        // `project/.git`, or `project/.bare` beside its work trees; else the bare repository itself.
        let project = if name.starts_with('.') { parent } else { &*git };
        let is_of_another = is_linked && project != work_tree && project.parent().is_some();
        let (folder, project) = (work_tree.to_str()?.into(), project.to_str()?.into());
        is_of_another.then_some(WorkTree { folder, project })
    })
}

/// Returns the work tree that a harness made inside of its project, by its path: the folder may be gone.
fn made_by_harness(cwd: &str) -> Option<WorkTree> {
    let place = harnesses().filter_map(|harness| harness.work_tree_folder()).find_map(|folder| {
        let part = format!("/{folder}/");
        cwd.find(&part).map(|at| (at, at + part.len()))
    });
    let (project_end, name_start) = place?;
    let (project, rest) = (cwd.get(..project_end)?, cwd.get(name_start..)?);
    let name = rest.split('/').next().filter(|name| !matches!(*name, "" | "." | ".."))?;
    let folder = cwd.get(..name_start + name.len())?;
    project.starts_with('/').then(|| WorkTree { folder: folder.into(), project: project.into() })
}

/// Returns a path without `.` and `..`, by its text.
fn normal(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                out.pop();
            }
            Component::CurDir => {}
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => out.push(part),
        }
    }
    out
}

/// Returns the text of a regular file that is not large.
pub fn small_file(path: &Path) -> Option<String> {
    let found = fs::metadata(path).ok()?;
    if !found.is_file() || found.len() > MAX_FILE_BYTES {
        return None;
    }
    fs::read_to_string(path).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(cwd: &Path) -> Option<(String, String)> {
        work_tree(cwd.to_str().unwrap()).map(|tree| (tree.folder.to_string(), tree.project.to_string()))
    }

    #[test]
    fn a_work_tree_that_a_harness_made_is_known_by_its_path() {
        let places: Vec<&str> = harnesses().filter_map(|harness| harness.work_tree_folder()).collect();
        assert!(places.len() >= 2, "{places:?}");
        for place in places {
            let of = |project: &str, rest: &str| format!("{project}/{place}{rest}");
            let shop = "/home/u/shop";
            for (cwd, folder) in [
                (of(shop, "/agent-a1"), Some(of(shop, "/agent-a1"))),
                (of(shop, "/fix/src"), Some(of(shop, "/fix"))),
                (of(shop, ""), None),
                (of(shop, "/"), None),
                (of(shop, "/.."), None),
                (of("shop", "/fix"), None),
                (of("", "/fix"), None),
                ("/home/u/worktrees/shop".to_owned(), None),
                ("/home/u/other/worktrees/1a2b/shop".to_owned(), None),
            ] {
                let expected = folder.map(|folder| (folder, shop.to_owned()));
                assert_eq!(found(Path::new(&cwd)), expected, "{cwd}");
            }
        }
    }

    #[test]
    fn a_linked_work_tree_belongs_to_the_folder_of_its_repository() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let link = |git: &str, tree: &str| {
            let (own, tree) = (root.join(git).join("worktrees/feature"), root.join(tree));
            fs::create_dir_all(&own).unwrap();
            fs::create_dir_all(tree.join("src")).unwrap();
            fs::write(own.join("commondir"), "../..\n").unwrap();
            fs::write(own.join("gitdir"), format!("{}\n", tree.join(".git").display())).unwrap();
            fs::write(tree.join(".git"), format!("gitdir: {}\n", own.display())).unwrap();
        };
        link("shop/.git", "shop-feature");
        link("bare/.bare", "bare/feature");
        link("store.git", "store-feature");
        let module = root.join("shop/module");
        fs::create_dir_all(&module).unwrap();
        fs::write(module.join(".git"), "gitdir: ../.git/modules/module\n").unwrap();
        // Two folders that claim to be work trees of the shop: by its own entry, and by one that they bring along.
        let claims = |tree: &str, git: &str, common: Option<String>| {
            let (tree, git) = (root.join(tree), root.join(git));
            fs::create_dir_all(&tree).unwrap();
            fs::create_dir_all(&git).unwrap();
            fs::write(tree.join(".git"), format!("gitdir: {}\n", git.display())).unwrap();
            if let Some(common) = common {
                fs::write(git.join("gitdir"), format!("{}\n", tree.join(".git").display())).unwrap();
                fs::write(git.join("commondir"), common).unwrap();
            }
        };
        claims("thief", "shop/.git/worktrees/feature", None);
        claims("forger", "forged", Some(root.join("shop/.git").display().to_string()));
        let path = |name: &str| root.join(name).to_str().unwrap().to_owned();
        for (cwd, expected) in [
            ("shop-feature", Some(("shop-feature", "shop"))),
            ("shop-feature/src", Some(("shop-feature", "shop"))),
            ("bare/feature/src", Some(("bare/feature", "bare"))),
            ("store-feature", Some(("store-feature", "store.git"))),
            ("shop", None),
            ("shop/module", None),
            ("thief", None),
            ("forger", None),
            ("nowhere", None),
        ] {
            let expected = expected.map(|(tree, project)| (path(tree), path(project)));
            assert_eq!(found(&root.join(cwd)), expected, "{cwd}");
        }
    }
}
