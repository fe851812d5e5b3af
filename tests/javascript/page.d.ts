/* Types of what the scripts in dashboard/assets share, and of what the page's server sends them.

   The scripts are classic scripts that share one object, `window.triggerlog`. Its functions take their types from here,
   so that the scripts declare only those of their own helpers. The sections of the stream are made by
   dashboard/frames.py of schemas/status.py. */

type Value = number | null;
type Liveness = "live" | "delayed" | "none";
type Draw = (liveness: Liveness) => void;

// --- settings, made by dashboard/tabs/settings.py -------------------------------------------------------------------------

interface InputDescription {
  kind: string; // number, select, text or other
  needed: boolean;
  value?: unknown;
  min?: number;
  max?: number;
  step?: number;
  pattern?: string;
  maxLength?: number;
  title?: string;
  options?: [string, string][];
}

interface Kind {
  words: string;
  visits: boolean;
  values: Record<string, number>;
  experiment_period_s: number;
}

interface InstrumentState {
  name: string;
  glyph: string;
  words: string;
}

interface Settings {
  colours: Record<"ink" | "faint" | "rule" | "calm" | "grey" | "limit" | "red" | "chosen", string>;
  font: object;
  graph: object;
  session_ended: number;
  history: { hour_s: number; bucket_s: number; kept_s: number; gap_s: number };
  ranges_s: Record<string, Value>;
  paths: Record<string, string>;
  missing_last: number;
  shelves_min: number[];
  states: Record<string, InstrumentState>; // by the letter in the section `states`
  figures: Record<string, string>;
  kinds: Record<string, Kind>;
  workload: Record<string, InputDescription>;
  governor: Record<string, InputDescription>;
  experiment: Record<string, InputDescription>;
  visits: Record<string, InputDescription>;
}

// --- the stream, made by dashboard/hub.py ----------------------------------------------------------------------------

interface Head {
  logger: string;
  version: string;
  state: string;
  epoch: string;
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
  latency_ms: { p50: Value; p99: Value; max: Value };
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

interface LastVisit {
  visit: number;
  visit_s: number;
  select_s: number;
  store_s: number;
  dia_s: number;
  ra: number;
  decl: number;
  tiles: number;
  objects: number;
}

interface VisitLine {
  intercept: number;
  slope_per_1000: number;
  slope_low: number;
  slope_high: number;
  visits: number;
}

interface VisitsSection {
  id: string;
  state: string;
  phase: string;
  active: boolean;
  problem: string | null;
  index_mode: string;
  target: string;
  visits: number;
  done: number;
  here: number;
  since_ns: number;
  last: LastVisit | null;
  compactions: number;
  compact_s: number;
  mean_s: Value;
  over_limit: Value;
  limit_s: number;
  interval_s: Value;
  slow: number;
  last_ns: Value;
  remaining_s: Value;
  fit: VisitLine | null;
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

/* dashboard/feed/marks.py */
interface MarkLine {
  id: string;
  t: number;
  until: Value;
  text: string;
  group: string | null;
  words: string;
  waits: boolean;
}

interface MarksSection {
  all: MarkLine[];
  newest: MarkLine[];
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
  fresh: number;
  quiet: string;
}

/* dashboard/feed/sentences.py */
interface GroupWords {
  outlook: string;
  written: string;
  risky: boolean;
  all: string;
  clients: string;
  refused: string;
  aside: string;
  adds: boolean;
  verdict: string;
  quiet: boolean;
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
  recovered: number;
  committed: number;
  duplicate: number;
  refused: number;
  reasons: Record<string, number>;
  aside: number;
  aside_reasons: Record<string, number>;
  lost: number;
  lost_how: Record<string, number>;
  dead: number;
  dead_letters: number;
  waiting: number;
  assembling: number;
  unaccounted: number;
  at_risk: number;
  late: number;
  complete: number;
  incomplete: number;
  skipped: number;
  newest: Value;
}

interface Sections {
  head?: Head;
  store?: StoreSection;
  limits?: Record<string, number>;
  disk?: { total_gib: number; free_gib: number; words: string; title: string } | null;
  readers?: Record<string, ReaderSection>;
  governor?: GovernorSection | null;
  experiment?: ExperimentSection | null;
  visits?: VisitsSection | null;
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

type Message = Snapshot | Frame | { kind: "sections"; changed: Changed } | { kind: "link"; link: Link };

// --- answers of the page's server ------------------------------------------------------------------------------------

interface Partition {
  name: string;
  start_ns: number;
  end_ns: number;
  rows: number;
  size_bytes: number;
}

interface Journal {
  size_bytes: number;
  room_bytes: number;
  limit_bytes: number;
  segment_bytes: number;
  problem: string | null;
}

interface StorageAnswer {
  time_ns: number;
  sizes_age_s: Value;
  partitions_age_s: Value;
  partitions_problem: string | null;
  database_is_here: boolean;
  free_bytes: Value;
  full_in_days: Value;
  groups: Record<
    string,
    {
      rows: number;
      readings: number;
      size_bytes: number;
      bytes_a_reading: Value;
      growth_bytes_a_day: Value;
      measured_bytes_a_day: Value;
      measured_over_s: number;
      partitions: Partition[];
      journal: Journal | null;
    }
  >;
}

interface Missing {
  run: Value;
  triggers: number;
  end_ns: Value;
  stretches: { trigger: number[]; time_ns: number[]; triggers: number[] };
  missing: Record<string, number[]>;
  more: number;
  late: number[];
  heard_s: Value[];
}

interface OrbitPlot {
  name: string;
  unit: string;
  values: Value[];
  rms: Value;
}

interface Orbit {
  run: Value;
  trigger: Value;
  time_ms: Value;
  missing: number[];
  choices: string[];
  choice: string;
  plots: OrbitPlot[];
}

interface Sample {
  t_s: number;
  p99_ms: Value;
  rate: number;
  backlog: number;
  readers: number;
}

interface Band {
  kind: "A" | "B";
  readers: number;
  begin_s: number;
  from_s: number;
  end_s: number;
}

interface Block extends Band {
  number: number;
  whole: boolean;
  rate: number;
  p50_ms: Value;
  p99_ms: Value;
}

interface Ratio {
  ratio: number;
  low: Value;
  high: Value;
  pairs: number;
}

interface Mean {
  value: number;
  low: Value;
  high: Value;
}

interface FigureRow {
  figure: string;
  readers: number;
  a: number;
  b: number;
  b_to_a: Ratio;
  verdict: string;
}

interface ServerRow {
  name: string;
  a: number;
  b: number;
  ratio: Value;
}

interface ExperimentResult {
  headline: string;
  rows: FigureRow[];
  steady: boolean | null;
  steadiness: string;
  readers: {
    workload: string;
    readers: number;
    admitted: number;
    deadline_ms: number;
    cycles: number;
    failed: number;
    rate: Mean;
    row_rate: Mean;
    p50_ms: Mean | null;
    p99_ms: Mean | null;
    efficiency: Mean | null;
  }[];
  server: ServerRow[];
  waits: ServerRow[];
  doses: { readers: number; p99_ms: Mean }[];
  crossing_words: string;
}

interface ExperimentSettings {
  workloads: { name: string; clients: number }[];
  pairs: number;
  block_s: number;
  warm_up_s: number;
  doses: number[];
}

interface ExperimentRecord {
  id: string;
  began_ns: number;
  state: string;
  problem: string | null;
  settings: ExperimentSettings;
  conditions: { server: string; durability: string; budget_ms: number };
  notes: string[];
  command: string;
  blocks: Block[];
  timeline: Sample[];
  result: ExperimentResult | null;
}

interface PastExperiment {
  id: string;
  began_ns: number;
  state: string;
  problem: string | null;
  readers: string;
  block_s: number;
  doses: number[];
  blocks: number;
  p99: Ratio | null;
  rate: Ratio | null;
  steady: boolean | null;
  headline: string;
  report: boolean;
}

interface InterferenceAnswer {
  running: ExperimentSection | null;
  live: {
    id: string;
    settings: ExperimentSettings;
    planned: number;
    budget_ms: number;
    from: number;
    samples: Sample[];
    blocks_from: number;
    blocks: Block[];
  } | null;
  version: number;
  past: PastExperiment[] | null;
}

interface VisitSettings {
  schema: string;
  index_mode: string;
  visits: number;
  survey: { scale: number; field_deg: number };
  tiles: number;
  workers: string;
  processes: number;
  history_days: number;
  all_history: boolean;
}

type VisitColumns = Record<"visit" | "visit_s" | "select_s" | "store_s" | "ra" | "decl", number[]>;

interface VisitFigures {
  stamp: number;
  from: number; // points before this place are as they were
  columns: VisitColumns;
  visits: Value;
  fits: Record<"visit_s" | "select_s" | "store_s", VisitLine | null>;
  boxes: { first: number; last: number; low: number; q1: number; median: number; q3: number; high: number; mean: number }[];
  bin: number;
  parts: Record<string, number[]>;
  over: { first: number; last: number; fraction: number }[];
  sizes: Record<string, { rows: number; table_bytes: number; index_bytes: number }>;
  counts: Record<string, number>;
  expected: Record<string, number>;
  limit_s: number;
  paper: { label: string; intercept: number; slope_per_1000: number } | null;
  settings: VisitSettings | null;
}

interface PastVisits {
  id: string;
  began_ns: number;
  ended_ns: number;
  index_mode: string;
  visits: number;
  problem: string | null;
}

interface VisitsAnswer {
  version: number;
  past: PastVisits[] | null;
  settings: VisitSettings | null;
  run: string | null;
  figures: VisitFigures | { stamp: number } | null;
  problem: string;
}

/** The answer to `GET /answers/...`, by path. */
type Answer<P extends string> = P extends "storage"
  ? StorageAnswer
  : P extends `groups/${string}/missing${string}`
    ? Missing
    : P extends `groups/${string}/orbit${string}`
      ? Orbit
      : P extends `interference?${string}`
        ? InterferenceAnswer
        : P extends `interference/${string}`
          ? ExperimentRecord
          : P extends `visits?${string}`
            ? VisitsAnswer
            : never;

interface Found<A> {
  answer: A | null;
  problem: string; // in one line; empty with an answer
  lost: boolean; // whether the page's server did not answer at all
}

// --- what the scripts hand each other --------------------------------------------------------------------------------

interface View {
  tab: string;
  range: string;
  group: string;
  instrument: string | null;
  pausedAt: Value;
  channel: string | null;
  experiment: string | null;
  visits: string | null;
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

interface Cell {
  text: string;
  level?: string | null;
  title?: string | null;
}

interface Row {
  key: string;
  cells: Record<string, string | Cell>;
}

interface Column<R extends Row> {
  name: string;
  label: string;
  title?: string;
  words?: boolean; // text, and no figure
  sort?: () => void;
  make?(row: R): Element; // the cell holds this element in place of text
  update?(element: Element, row: R): void;
}

interface Figures {
  name: number;
  state: number;
  missing: number;
  late: number;
  heard: number;
}

interface WorstRow extends Row {
  counts: number[];
  sizes: number[];
  by: Figures;
}

type Input = HTMLInputElement | HTMLSelectElement;

interface Field extends Partial<InputDescription> {
  name: string;
  label: string;
  hint?: string;
}

interface VisitField extends Field {
  of?: [string, string]; // counts only where that field has this value
}

interface Outcome {
  ok: boolean;
  line: string; // for the person
}

interface OrderForm {
  prefix: string;
  fields: Field[];
  button: string;
  order(values: Record<string, string | number>): Promise<Outcome>;
}

interface ShownExperiment {
  id: string;
  settings: ExperimentSettings;
  budget_ms: number;
  samples: Sample[];
  blocks: Block[];
  result: ExperimentResult | null;
  record: ExperimentRecord | null;
}

interface ShownRun {
  id: string;
  live: VisitsSection | null;
  kept: PastVisits | null;
  figures: VisitFigures | null;
  listed: boolean; // whether the list of past runs is known
}

/** The element that a selector finds, by the tag it begins with. */
type Selected<S extends string> = S extends keyof HTMLElementTagNameMap
  ? HTMLElementTagNameMap[S]
  : S extends keyof SVGElementTagNameMap
    ? SVGElementTagNameMap[S]
    : S extends `${infer Tag extends keyof HTMLElementTagNameMap}.${string}`
      ? HTMLElementTagNameMap[Tag]
      : S extends `[name=${string}]`
        ? Input
        : HTMLElement;

// --- window.triggerlog -----------------------------------------------------------------------------------------------

interface Triggerlog {
  settings: Settings;
  state: {
    build: string | null;
    epoch: string | null;
    sequence: Value;
    columns: string[];
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
  fileLink(path: string, label: string, of: string): HTMLAnchorElement;
  keys<O extends object>(given: O): (keyof O & string)[];
  text(element: Element, text: string): void;
  prose(element: HTMLElement, text: string): void;
  attribute(element: Element, name: string, value: string | null): void;
  differs(element: HTMLElement, stamp: string): boolean;
  problem(place: HTMLElement, problem: string): void;
  columns(list: [name: string, label: string, title?: string][]): Column<Row>[];

  // _tabs.js
  onTab(tab: string, draw: Draw): void;
  drawTab: Draw;
  openTab(tab: string): void;
  fillTab(): void;
  tabNames(): string[];
  showTab(): void;

  // ask.js, orders.js, forms.js
  ask<P extends string>(path: P): Promise<Found<Answer<P>>>;
  order(order: string, body: object, what: string): Promise<Outcome>;
  field(prefix: string, described: Field): HTMLElement;
  setOptions(select: HTMLSelectElement, options: [string, string][]): void;
  input(place: Element, name: string): Input;
  inputs(place: Element): Input[];
  show(input: Input, shown: boolean): void;
  values(place: Element): Record<string, string | number>; // by name; nothing of what is empty or hidden
  orderForm(place: HTMLElement, form: OrderForm): HTMLFormElement;
  submit(button: HTMLButtonElement, place: HTMLElement, order: () => Promise<Outcome>): Promise<void>;

  // format.js
  number(value: Value | undefined, digits?: number): string;
  plain(value: number): string;
  signed(value: number): string;
  factor(value: number): string;
  seconds(value: Value | undefined): string;
  count(value: Value | undefined): string;
  reasons(counts: Record<string, number>): string;
  time(ms: number): string;
  day(ms: number): string;
  moment(ms: number): string;
  lasted(seconds: number): string;
  about(seconds: number): string;
  bytes(bytes: Value | undefined): string;
  lastOf<V>(values: V[]): V | undefined;

  // state.js, view.js, stream.js
  apply(message: Message): void;
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

  // live.js, charts.js, tables.js
  figure(path: string): any; // whatever stands there in the stream; null where nothing does
  drawLive: Draw;
  redraw(): void;
  drawCharts(): void;
  plotLayout(height: number): object;
  plotAxis(): object;
  logAxis(low: number, high: number, wide: number): object; // only powers of ten where high / low is more than wide
  plotOf(place: HTMLElement): PlotElement | null;
  marks(from: number, to: number, place: (time: number) => number): { shapes: object[]; annotations: object[] };
  around(low: number, high: number, least: number): [number, number];
  drawTable<R extends Row>(place: HTMLElement, caption: string, columns: Column<R>[], rows: R[], empty: string): void;
  markSorted(place: HTMLElement, name: string, direction: "ascending" | "descending"): void;

  // grid.js
  instrumentName(group: string, number: number): string;
  stateOf(letter: string): InstrumentState;
  stateWords(letter: string): string;
  isQuiet(letter: string): boolean;
  badness(letter: string): number;
  cell(address: string): HTMLElement | undefined;

  // reads.js
  offerGroups(form: Element): void;
  workloadFields(): Field[];
  followKind(form: Element, note: HTMLElement, change: (kind: string) => Record<string, number>): void;

  // interference*.js
  experimentForm(): void;
  askExperiments(): void; // at once, e.g. after an order
  chooseExperiment(id: string): void;
  drawExperiment(shown: ShownExperiment | null, running: ExperimentSection | null, liveness: Liveness): void;
  drawExperimentCharts(shown: ShownExperiment | null): void;
  drawPast(past: PastExperiment[], shown: ShownExperiment | null): void;
  byNeighbours(blocks: Block[], block: Block, figure: "p99_ms" | "p50_ms" | "rate"): Value;
  readers(n: number): string;
  geometricMean(values: number[]): number;

  // visits*.js
  askVisits(): void; // at once, e.g. after an order
  chooseVisits(id: string): void;
  visitsForm(active: boolean, settings: VisitSettings | null): void;
  drawVisitsRun(run: ShownRun, liveness: Liveness): void;
  drawVisitsPast(past: PastVisits[], shown: string): void;
  drawVisitsTiles(live: VisitsSection | null, figures: VisitFigures | null, liveness: Liveness): void;
  drawVisitsTables(figures: VisitFigures): void;
  drawVisitsCharts(id: string, figures: VisitFigures): void;
  drawVisitsSky(id: string, figures: VisitFigures | null, live: VisitsSection | null): void;
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
    set_props(id: string, props: object): void;
    triggerlog?: { closed(opened: boolean | undefined): void };
  };
  Plotly: {
    react(place: PlotElement, traces: object[], layout: object, config?: object): void;
    redraw(place: PlotElement): void;
    extendTraces(place: PlotElement, added: object, traces: number[]): void;
  };
}
