// Pictures of a team's page with 1,000 made-up developers, for people to look at: `cargo xtask page developers`. They go to
// `target/pictures`, at three widths, in both themes; that of the book goes to `docs/src/images`.
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { it } from "vitest";
import { cleanUp, sleep } from "./harness";
import { atWork, like, recorded, type Snapshot, TeamServer } from "./team";

const ROOT = join(import.meta.dirname, "../..");
const [IMAGES, SCREENS] = [join(ROOT, "docs/src/images"), join(ROOT, "target/pictures")];
for (const folder of [IMAGES, SCREENS]) mkdirSync(folder, { recursive: true });

const FIRST = ["ana", "bob", "chen", "dara", "emil", "fatima", "gita", "hugo", "irene", "jonas", "kofi", "lena", "mateo", "nadia", "omar", "priya", "quinn", "rosa", "sven", "tariq", "uma", "vera", "wei", "yara", "zoe"];
const LAST = ["abe", "berg", "costa", "diaz", "eriksson", "fischer", "garcia", "haddad", "ivanova", "jansen", "kowalski", "lopez", "mbeki", "nguyen", "okafor", "park", "rossi", "sato", "tanaka", "ueda", "van-der-meulen-bakker", "weber", "xu", "yilmaz", "zhang", "lindqvist", "moreau", "novak", "oliveira", "petrov", "quist", "ricci", "silva", "toth", "urban", "vega", "wang", "young", "zeman", "ahn"];
const TEAMS = ["web", "payments", "search", "data-platform", "mobile", "infra", "security", "growth", "checkout", "catalog", "pricing", "logistics", "identity", "observability", "ml", "compilers", "design-systems", "billing", "support-tools", "partners", "risk", "ads", "video", "maps", "research"];
const PROJECTS = Array.from({ length: 60 }, (_, at) => `${["shop", "till", "ledger", "atlas", "beacon", "forge", "harbor", "kiln", "loom", "mosaic"][at % 10]}-${["api", "web", "core", "jobs", "infra", "a-project-with-a-very-long-name-that-nobody-can-read"][Math.floor(at / 10)]}`);
const TITLES = ["Round prices half up in the cart", "Find out why the nightly export is slow", "Move the session store to the new schema and backfill what is missing", "Write tests for the retry queue", "Upgrade the bundler", "Review the change to the permission checks", "Translate the error messages"];
const DAY_MS = 86_400_000;

cleanUp("each test");

it("takes them", { timeout: 900_000 }, async () => {
  const people = Array.from({ length: 1000 }, (_, at) => ({ user: `${FIRST[at % 25] ?? ""}.${LAST[Math.floor(at / 25)] ?? ""}`, team: TEAMS[(at * 7) % 25] ?? "", at }));
  const team = await TeamServer.start(people.map(({ user, team }) => [user, team]));
  try {
    const patterns = await Promise.all(["a-single", "b-parallel", "c-nested"].map(recorded));
    const now = Date.now();
    const sessions = ({ user, at }: (typeof people)[number]): Snapshot[] =>
      Array.from({ length: 2 + ((at * 13) % 5) }, (_, number) => {
        const pattern = patterns[(at + number) % 7 === 0 ? 2 : (at + number) % 3 === 0 ? 1 : 0] as Snapshot;
        // A tenth has been away for a week or more.
        const days = (at % 10 === 3 ? 8 : 0) + ((at * 3 + number * 5) % 20);
        const level = ["titles", "titles", "figures", "text"][at % 4] ?? "figures";
        const machine = number === 1 && at % 20 === 0 ? `build-box-${at}` : `${user.split(".")[0] ?? ""}-laptop`;
        const made = like(pattern, `${at.toString(16).padStart(4, "0")}-${number}`, now - days * DAY_MS - ((at * 97) % 600) * 60_000 - 3_600_000, { machine, level, project: PROJECTS[(at * 7 + number) % 60] ?? "" });
        made.row.title = made.tree.session.title = level === "figures" ? null : (TITLES[(at + number) % 7] ?? null);
        if (number > 0 || at % 4 !== 1) return made;
        const work = like(made, made.row.id, now - (1 + (at % 50)) * 60_000, {});
        const since_ms = now - (at % 2400) * 1000;
        const kinds = [
          () => atWork(work, { kind: "tool", name: "Bash", since_ms }),
          () => atWork(work, { kind: "model", since_ms }),
          () => atWork(work, { kind: "permission", name: "Bash", since_ms }, "waiting"),
          () => atWork(work, { kind: "retry", count: 3, limit: 10, name: "overloaded", since_ms }, "trouble"),
          () => atWork(work, { kind: "tool", name: "Read", since_ms }),
        ];
        const live = (kinds[(at >> 2) % 11 < 5 ? (at >> 2) % 5 : (at >> 2) % 2] ?? (() => work))();
        // Some machines went away meanwhile.
        if (at % 60 === 1) live.row.kept_at_ms = live.row.last_event_at_ms = now - 5 * 3_600_000;
        return live;
      });
    for (let from = 0; from < people.length; from += 16) {
      await Promise.all(people.slice(from, from + 16).map((one) => team.send(one.user, sessions(one))));
    }
    const screens: Record<string, string> = { now: "/", people: "/people", cost: "/cost", "cost-user": "/cost?by=user", stats: "/stats" };
    const wait = '[data-testid="working"], [data-testid="person"], [data-testid="cost-row"], [data-testid="stats"] table';
    for (const width of [390, 1280, 1920]) {
      for (const colorScheme of ["dark", "light"] as const) {
        for (const [name, path] of Object.entries(screens)) {
          const isPhone = width === 390;
          const options = { viewport: { width, height: isPhone ? 780 : Math.round(width * 0.6) }, colorScheme, ...(isPhone ? { hasTouch: true, isMobile: true } : {}) };
          const { page, context } = await team.look("ana.abe", path, options);
          await page.locator(wait).filter({ visible: true }).first().waitFor();
          await sleep(1_000);
          await page.screenshot({ path: join(SCREENS, `team-${name}-${width}-${colorScheme}.png`) });
          if (name === "cost" && width === 1280 && colorScheme === "dark") await page.screenshot({ path: join(IMAGES, "page-team.png") });
          await context.close();
        }
      }
    }
  } finally {
    team.stop();
  }
});
