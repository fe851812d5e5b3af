/* Types of what the scripts in dashboard/assets share, and of what the page's server sends them.

   The scripts are classic scripts that share one object, `window.triggerlog`. Its functions take their types from here,
   so that the scripts declare only those of their own helpers. The sections of the stream are made by
   dashboard/frames.py of schemas/status.py. */

type Value = number | null;
type Liveness = "live" | "delayed" | "none";
type Draw = (liveness: Liveness) => void;

// --- settings, made by dashboard/tabs/page.py -------------------------------------------------------------------------

interface InstrumentState {
  name: string;
  glyph: string;
  words: string;
  said: string; // a cell's accessible name, {} for its instrument's
  said_lost: string; // without data
}

interface Settings {
  buttons_most: number; // groups that have a button each
  badge: Record<Liveness, { glyph: string; word: string; title: string }>;
  colours: Record<"ink" | "limit" | "chosen", string>;
  session_ended: number;
  history: { hour_s: number; bucket_s: number; kept_s: number; gap_s: number };
  ranges_s: Record<string, Value>;
  paths: Record<string, string>;
  time_zone: string;
  states: Record<string, InstrumentState>; // by the letter in the section `states`
}

// --- the stream, made by dashboard/hub.py ----------------------------------------------------------------------------

interface Head {
  logger: string;
  version: string;
  state: string;
  epoch: string;
  groups: string[];
  started_ms: number;
}

interface StoreSection {
  backend: string;
  product: string;
  probe: string;
  version: string;
  durability: string;
  shortfall: Record<string, string>;
  settings: Record<string, string>;
  embedded: boolean;
  target: string;
  available: boolean;
  problem: string | null;
  retries: number;
  words: string;
  title: string;
}

interface ReaderSection {
  kind: string;
  group: string;
  clients: number;
  admitted: number;
  share: number;
  asking: number;
  since_ns: number;
  state: string;
  problem: string | null;
  cycles: number;
  in_time: number;
  failed: number;
  slipped_s: number;
  rows: number;
  rate: number;
  row_rate: number;
  efficiency: Value;
  latency_ms: { p50: Value; p99: Value; max: Value; tail: Value; is_p99_known: boolean };
  deadline_ms: number;
}

interface GovernorSection {
  commit_p99_ms: Value;
  backlog_triggers: Value;
  admitted: number;
  share: number;
  clients: number;
  state: string;
  reason: string;
}

interface ExperimentSection {
  id: string;
  began_ns: number;
  phase: string;
  block: number;
  blocks: number;
  readers: number;
  left_s: number;
}

interface SourceSection {
  kind: string;
  address: string;
  connections: number;
  refused: Record<string, number>;
  refused_most: Record<string, number>;
  lost_datagrams: number;
}

interface EventLine {
  t: number;
  severity: string;
  text: string;
}

/* dashboard/feed/sentences.py */
interface MarkLine {
  t: number;
  until: Value;
  text: string;
  group: string | null;
  words: string;
  waits: boolean;
}

interface MarksSection {
  all: MarkLine[];
  problem: string | null; // why these may not be all
}

interface AlarmSection {
  key: string;
  severity: "critical" | "warning" | "note";
  text: string;
  action: string;
  since_ms: number;
  attention: "new" | "acknowledged" | "shelved";
  at_ms?: number;
  until_ms?: number;
  glyph: string;
  dealt: string;
  is_new: boolean;
  is_quiet: boolean;
  news: string;
}

interface AlarmCount {
  text: string;
  severity: string;
  quiet: string;
  title: string;
}

/* dashboard/feed/sentences.py */
interface GroupWords {
  title: string;
  trouble: number;
  state: string;
  slow?: string; // of all groups together: the worst of them, as the two below
  waits?: string;
  misses?: string;
  grid: string;
  outlook: string;
  written: string;
  risky: boolean;
  all: string;
  clients: string;
  refused: string;
  aside: string;
  dead: string;
  adds: boolean;
  verdict: string;
  quiet: boolean;
  idle: boolean;
  tail: string;
  few: boolean;
  short: boolean;
}

interface GroupSection {
  run: number;
  instruments: number;
  layout: string;
  durability: string;
  at_risk_ms: Value;
  backpressure: boolean;
  journal_mib: number;
  run_since_ms: number;
}

interface Outlook {
  full_in_s: Value;
  drained_in_s: Value;
}

interface Totals {
  received: number;
  committed: number;
  duplicate: number;
  refused: number;
  reasons: Record<string, number>;
  aside: number;
  aside_reasons: Record<string, number>;
  lost: number;
  lost_how: Record<string, number>;
  dead: number;
  dead_now: number;
  dead_letters: number;
  waiting: number;
  assembling: number;
  unaccounted: number;
  at_risk: number;
  late: number;
  complete: number;
  incomplete: number;
  skipped: number;
  newest: string | null;
}

/* dashboard/feed/groups.py */
interface Together {
  many: boolean;
  words?: string;
  bad?: string[];
}

interface Sections {
  head?: Head;
  together?: Together;
  store?: StoreSection;
  limits?: Record<string, number>;
  disk?: { total_gib: number; free_gib: number; words: string; title: string } | null;
  readers?: Record<string, ReaderSection>;
  governor?: GovernorSection | null;
  experiment?: ExperimentSection | null;
  visits?: object | null; // whose change a tick tells of
  snapshots?: object | null; // the same
  conditions?: object | null; // of which elements show figures
  sources?: SourceSection[];
  events?: EventLine[];
  marks?: MarksSection;
  alarms?: AlarmSection[];
  alarm_count?: AlarmCount;
  [group: `group/${string}`]: GroupSection | undefined;
  [outlook: `outlook/${string}`]: Outlook | undefined;
  [states: `states/${string}`]: string | undefined;
  [slips: `slips/${string}`]: Record<string, string> | undefined;
  [totals: `totals/${string}`]: Totals | undefined;
  [words: `words/${string}`]: GroupWords | undefined;
  [names: `names/${string}`]: string[] | undefined;
}

/** Sections that differ from the frame before; one that is gone is null. */
type Changed = { [K in keyof Sections]: Sections[K] | null };

interface Link {
  up: boolean;
  since: Value;
  problem: string | null;
  daemon: string;
}

interface Snapshot {
  kind: "snapshot";
  build: string;
  columns: string[];
  epoch: string | null;
  sequence: Value;
  t: Value;
  lag: number;
  link: Link;
  sections: Sections;
  history: Record<string, [number[], ...Value[][]]>;
  brief: string[]; // groups of which it has the newest points alone
}

interface Frame {
  kind: "frame";
  epoch: string;
  sequence: number;
  t: number;
  lag: number;
  points: Record<string, Value[]>;
  changed: Changed;
}

type Message = Snapshot | Frame | { kind: "link"; link: Link };

// --- what the scripts hand each other --------------------------------------------------------------------------------

interface View {
  tab: string;
  range: string;
  group: string;
  instrument: string | null;
  pausedAt: Value;
  channel: string | null;
  calibrated: string | null;
  experiment: string | null;
  visits: string | null;
  snapshots: string | null;
  tags: string | null;
  type: string | null;
  folder: string | null;
}

interface Series {
  t: number[];
  values: Value[][]; // one array per column
  thin?: number; // points before this place are thinned
  tidied?: number;
}

interface Points {
  x: number[];
  y: Value[];
}

interface TimeRange {
  from: number;
  to: number;
}

interface ValueAxis {
  range: [number, number];
  limit?: number; // drawn as a line
}

interface Grid {
  root: HTMLElement;
  cells: HTMLElement[];
  names: string[] | null;
  states: string;
  liveness: Liveness | null;
  slips: Record<string, string> | null;
}

interface LiveChart {
  name: string;
  box: HTMLElement;
  tab: string;
  line: HTMLElement;
  visible: boolean;
  drawnAt: number;
  drawnTo: Value;
}

/** The element that a selector finds, by the tag it begins with. */
type Selected<S extends string> = S extends keyof HTMLElementTagNameMap
  ? HTMLElementTagNameMap[S]
  : S extends keyof SVGElementTagNameMap
    ? SVGElementTagNameMap[S]
    : S extends `${infer Tag extends keyof HTMLElementTagNameMap}.${string}`
      ? HTMLElementTagNameMap[Tag]
      : HTMLElement;

// --- window.triggerlog -----------------------------------------------------------------------------------------------

interface Triggerlog {
  settings: Settings;
  state: {
    build: string | null;
    epoch: string | null;
    sequence: Value;
    columns: string[];
    brief: Set<string>;
    sections: Sections;
    series: Record<string, Series>; // by group
    newest: Value; // time of the newest frame, by the daemon's clock
    link: Link;
  };
  view: View;
  pageProcess: { up: boolean };

  // _dom.js
  byId(id: string): HTMLElement;
  find<S extends string>(place: Element, selector: S): Selected<S>;
  make<K extends keyof HTMLElementTagNameMap>(
    tag: K,
    className?: string,
    text?: string,
    attributes?: Record<string, string>
  ): HTMLElementTagNameMap[K];
  button(className: string, label: string, act: () => unknown): HTMLButtonElement;
  text(element: Element, text: string): void;
  prose(element: HTMLElement, text: string): void;
  attribute(element: Element, name: string, value: string | null): void;
  differs(element: HTMLElement, stamp: string): boolean;

  // _tabs.js
  onTab(tab: string, draw: Draw): void;
  drawTab: Draw;
  openTab(tab: string): void;
  fillTab(): void;
  load(src: string): Promise<void>;
  tabNames(): string[];
  showTab(): void;

  // format.js
  number(value: Value | undefined, digits?: number): string;
  plain(value: number): string;
  seconds(value: Value | undefined): string;
  count(value: Value | undefined): string;
  offset(ms: number): number; // ms that the zone is ahead of UTC
  time(ms: number): string;
  moment(ms: number): string;
  lasted(seconds: number): string;
  about(seconds: number): string;
  bytes(bytes: Value | undefined): string;

  // state.js, view.js, stream.js
  apply(message: Message): void;
  complete(group: string): Promise<void>;
  groups(): string[];
  section<K extends keyof Sections>(key: K): Sections[K];
  window(group: string, column: string, from: number, to: number, most: number): Points;
  began(group: string): Value;
  latest(group: string, column: string): Value;
  timeRange(): TimeRange | null;
  readView(): void;
  choose(change: Partial<View>, further?: boolean): void;
  pause(): void;
  stepRange(by: number): void;
  drawView(): void;
  pick(group: string, instrument: number): void;
  age(): number;
  liveness(): Liveness;
  lostSince(): number;
  now(): number;
  schedule(): void;

  // live.js, charts.js, marks.js
  figure(path: string): any; // whatever stands there in the stream; null where nothing does
  drawLive: Draw;
  redraw(): void;
  drawCharts(): void;
  marks(from: number, to: number, place: (time: number) => number): { shapes: object[]; annotations: object[] };

  // grid.js
  instrumentName(group: string, number: number): string;
  hasGrid(group: string): boolean;
  cell(address: string): HTMLElement | undefined;
}

// --- Dash and plotly.js ----------------------------------------------------------------------------------------------

interface PlotAxis {
  range?: unknown;
  autorange?: boolean;
  showticklabels?: boolean;
  tickformat?: string;
}

/* How the axis of values of a live chart lies, as dashboard/tabs/figures.py declares it. */
interface ChartAxis {
  from: "zero" | "around";
  least: number;
  limit?: string;
}

type Item = Record<string, any>; // of a list in a section, as data-each shows it

interface Trace {
  x?: number[];
  y?: Value[];
  meta?: unknown;
  [attribute: string]: unknown;
}

interface PlotElement extends HTMLElement {
  data: Trace[];
  layout: { xaxis: PlotAxis; yaxis: PlotAxis; shapes?: object[]; annotations?: object[]; height?: number; meta: ChartAxis };
  _fullLayout?: { xaxis?: { _offset: number; _length: number } };
  on(event: "plotly_click", act: (event: { points: { x: number }[] }) => void): void;
}

interface Window {
  triggerlog: Triggerlog;
  dash_clientside: {
    set_props(id: string | object, props: object): void;
    triggerlog?: { closed(opened: boolean): void; choose(change: Partial<View> | null): void; keys(on: boolean): void; group(value: string | null, given?: { rowId: string }): void };
  };
  dash_ag_grid: { getApi(id: string): { setGridOption(name: string, value: unknown): void } };
  dashAgGridFunctions: Record<string, unknown>;
  dashAgGridComponentFunctions: Record<string, unknown>;
  React: { createElement(kind: string, props: object, ...children: unknown[]): object };
  Plotly: {
    redraw(place: PlotElement): void;
  };
}
