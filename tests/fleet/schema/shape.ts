/** What a dashboard of deploy/grafana is, by the types that Grafana publishes. */

import type {
  AnnotationQuery,
  Dashboard,
  DataQuery,
  DataSourceRef,
  FieldConfig,
  FieldConfigSource,
  GraphFieldConfig,
  Panel,
  RowPanel,
  TableFieldOptions,
  TableOptions,
  VariableModel,
} from "@grafana/schema";
import type { Options as StatOptions } from "@grafana/schema/dist/esm/raw/composable/stat/panelcfg/x/StatPanelCfg_types.gen";
import type { Options as TimeSeriesOptions } from "@grafana/schema/dist/esm/raw/composable/timeseries/panelcfg/x/TimeSeriesPanelCfg_types.gen";

/** The same as JSON has it: the value in the place of a member of an enumeration. */
type Json<T> = 0 extends 1 & T
  ? T
  : T extends string
    ? `${T}`
    : T extends number
      ? `${T}` extends `${infer N extends number}` ? N : number
      : T extends (infer E)[]
        ? Json<E>[]
        : T extends object
          ? { [K in keyof T]: Json<T[K]> }
          : T;

/** Without an index signature, which would let everything in. */
type Named<T> = { [K in keyof T as string extends K ? never : K]: T[K] };

/** What our panels ask; the package has no type for queries to Prometheus. */
interface PrometheusQuery extends Omit<Named<DataQuery>, "datasource"> {
  datasource: DataSourceRef;
  expr: string;
  legendFormat?: string;
  instant: boolean;
  range: boolean;
  format?: "table" | "time_series";
}

interface Fields<Custom> extends Omit<FieldConfigSource, "defaults"> {
  defaults: Omit<Named<FieldConfig>, "custom"> & { custom?: Partial<Custom> };
}

/** Grafana fills in what options do not say. */
type Of<Kind extends string, Options, Custom> = Json<
  Omit<Named<Panel>, "type" | "options" | "fieldConfig" | "targets"> & {
    type: Kind;
    title: string;
    gridPos: NonNullable<Panel["gridPos"]>;
    options: Partial<Options>;
    fieldConfig: Fields<Custom>;
    targets: PrometheusQuery[];
  }
>;

export type Stat = Of<"stat", StatOptions, Record<never, never>>;
export type Timeseries = Of<"timeseries", TimeSeriesOptions, GraphFieldConfig>;
export type Table = Of<"table", TableOptions, TableFieldOptions>;
export type Row = Json<Named<RowPanel>>;
export type Variable = Json<Named<VariableModel>>;
/** An event in the graphs; what it is called is asked of Prometheus' part of Grafana, whose types are not in the package. */
export type Annotation = Json<
  Omit<Named<AnnotationQuery>, "target"> & { target: Pick<PrometheusQuery, "refId" | "expr">; titleFormat?: string; textFormat?: string }
>;
/** What is in lists is looked at one by one: of what does not fit, the name is then said. */
export type Board = Json<Omit<Named<Dashboard>, "panels" | "templating" | "annotations">>;
