# pu.R - latent Gaussian models from R: pu_fit, then predict, simulate, coef, logLik, summary and so on. See README.md.
#
#     source("examples/r/pu.R")       # loads pu.so, which R CMD SHLIB pu.c has made beside it
#
# What a call refuses is an R error of class pu_error with the library's text; what ran, but has something to say, a warning
# of class pu_warning. Both have the status in $status, such as "PU_E_ARGUMENT".

local({
    here <- dirname(sys.frame(1)$ofile)     # source() keeps the name of the file in its frame
    file <- file.path(here, paste0("pu", .Platform$dynlib.ext))
    if (!file.exists(file)) stop(file, " is not there; make it: cd ", here, " && R CMD SHLIB pu.c", call. = FALSE)
    dyn.load(file)
})

# ---- conditions

# Raises what a status says: an error where it is negative, a warning where it is positive.
pu_check <- function(handle, status, call = sys.call(-1))
{
    if (status == 0) return(invisible())
    condition <- list(message = .Call("pu_r_text", handle, "explain"), call = call, status = .Call("pu_r_text", handle, "status"))
    if (status < 0) stop(structure(condition, class = c("pu_error", "error", "condition")))
    warning(structure(condition, class = c("pu_warning", "warning", "condition")))
}

# The same for an answer, list(status =, ...).
pu_answer <- function(handle, answer, call = sys.call(-1))
{
    pu_check(handle, answer$status, call)
    answer
}

# ---- handles

pu_is_array <- function(key) grepl("^(Phi|X|times|size|regressors)$|^(level|slope)[.]", key)

# One key. Arrays go row by row: R's matrices are turned. Levels are factors, or any other vector, or numbers from 1 on.
pu_set <- function(handle, key, value, call)
{
    if (grepl("^level[.]", key)) {
        if (!is.factor(value)) value <- factor(value)
        value <- as.integer(value) - 1L
        if (anyNA(value)) stop(key, ": NA is not a level", call. = FALSE)
    } else if (pu_is_array(key)) {
        value <- if (length(dim(value)) > 1) as.double(aperm(value)) else as.double(value)
    } else if (is.logical(value)) {
        value <- as.double(value)
    } else if (!is.character(value)) {
        value <- as.double(value)
        if (length(value) != 1) stop(key, ": one number is wanted", call. = FALSE)
    }
    pu_check(handle, .Call("pu_r_set", handle, key, value, if (pu_is_array(key)) "a" else "n"), call)
}

# Sizes that the data and arrays tell already.
pu_sizes <- function(model, y, keys)
{
    m <- ncol(y)
    sizes <- switch(model,
        factors = , ppca = list(rows = m),
        sparse = , regression = list(rows = m, latent = NCOL(keys$Phi)),
        neural = list(points = NROW(keys$X), inputs = NCOL(keys$X)),
        noisy_ar = , state_space = , structural = list(length = m),
        dynamic_factors = list(length = m %/% max(1, keys$outputs)),
        effects = list(rows = m, columns = if (is.null(keys$X)) 0 else NCOL(keys$X)),
        list())
    if (!is.null(keys$regressors)) {
        several <- length(dim(keys$regressors)) == 3      # data x entries x columns
        sizes$regressors.columns <- if (several) dim(keys$regressors)[3] else NCOL(keys$regressors)
        if (several) sizes$regressors.data <- dim(keys$regressors)[1]
    }
    sizes[setdiff(names(sizes), names(keys))]
}

# y as a matrix whose rows are data: a vector or series is one datum; for dynamic factors, and for fields, so is a matrix.
pu_rows <- function(model, y)
{
    if (is.data.frame(y)) y <- as.matrix(y)
    if (!is.numeric(y) && !is.logical(y)) stop("y: numbers are wanted", call. = FALSE)
    if (model == "field" || (model == "dynamic_factors" && is.matrix(y))) y <- t(as.vector(aperm(y)))
    if (!is.matrix(y)) y <- t(as.vector(y))
    storage.mode(y) <- "double"
    y
}

# The handle of a fit; made again where it is of another session of R (saveRDS keeps the keys and the data, not the handle).
pu_handle <- function(object)
{
    if (!.Call("pu_r_is_alive", object$state$handle)) object$state$handle <- pu_make(object$model, object$keys, object$y, NULL)
    object$state$handle
}

pu_make <- function(model, keys, y, call)
{
    handle <- .Call("pu_r_new", model)
    for (key in names(keys)) pu_set(handle, key, keys[[key]], call)
    pu_check(handle, .Call("pu_r_data", handle, y), call)
    if (is.na(.Call("pu_r_number", handle, "params"))) pu_check(handle, .Call("pu_r_number", handle, "status"), call)
    handle
}

# ---- what people call

# A model and its data, not fitted: theta is the start. Further arguments are keys of the model and of the options, as at "flat" in
# pu.h; sizes that y and the arrays tell need not be given.
pu_model <- function(model, y, ...)
{
    keys <- list(...)
    call <- sys.call()
    if (length(keys) && (is.null(names(keys)) || any(names(keys) == ""))) stop("give keys by name, e.g. latent = 2")
    if (model == "dynamic_factors" && is.matrix(y) && is.null(keys$outputs)) keys$outputs <- ncol(y)
    y <- pu_rows(model, y)
    keys <- c(keys, pu_sizes(model, y, keys))
    state <- new.env(parent = emptyenv())
    state$handle <- pu_make(model, keys, y, call)
    theta <- pu_answer(state$handle, .Call("pu_r_start", state$handle), call)$theta
    structure(list(model = model, keys = keys, y = y, theta = theta, state = state), class = "pu_model")
}

# A fitted model. model: a name, or what pu_model has made. y: a vector (one datum: a series, a response) or a matrix with a datum in
# every row; NA is a gap. theta: where to begin. progress: a function of the step and the objective; TRUE ends the fit. Ctrl-C does,
# too, with the best so far.
pu_fit <- function(model, y, ..., theta = NULL, progress = NULL)
{
    call <- sys.call()
    made <- inherits(model, "pu_model")
    if (made && (!missing(y) || length(list(...)))) stop("this model has its data and keys already: give them to pu_model")
    object <- if (made) model else pu_model(model, y, ...)
    handle <- pu_handle(object)
    fit <- .Call("pu_r_fit", handle, if (is.null(theta)) object$theta else as.double(theta), progress, environment())
    if (fit$failed) stop("the progress function failed; the fit was stopped", call. = FALSE)
    pu_check(handle, fit$status, call)
    if (fit$interrupted) warning("interrupted: these are the best parameters so far", call. = FALSE)
    number <- function(name) .Call("pu_r_number", handle, name)
    object$theta <- fit$theta
    object$objective <- number("objective")     # of the last step; logLik and pu_nll are at theta
    object$converged <- number("converged") == 1
    object$steps <- number("steps")
    object$stop <- .Call("pu_r_text", handle, "stop")
    object$explain <- .Call("pu_r_text", handle, "fit")
    object$interrupted <- fit$interrupted
    class(object) <- c("pu_fit", "pu_model")
    object
}

# Natural values of the parameters, by name; theta has the free ones that are fitted.
coef.pu_model <- function(object, ...)
{
    params <- .Call("pu_r_params", pu_handle(object), object$theta)
    stats::setNames(params$natural, params$name)
}

# The negative log-likelihood at theta: the mean over the data. se: of its probes, 0 where it is exact.
pu_nll <- function(object, theta = object$theta)
{
    handle <- pu_handle(object)
    pu_answer(handle, .Call("pu_r_at", handle, as.double(theta), "n"))
    structure(.Call("pu_r_number", handle, "nll"), se = .Call("pu_r_number", handle, "nll_se"))
}

# Its gradient in theta, and the standard errors of that (0: exact).
pu_gradient <- function(object, theta = object$theta)
{
    handle <- pu_handle(object)
    answer <- pu_answer(handle, .Call("pu_r_at", handle, as.double(theta), "g"))
    names(answer$value) <- names(coef(object))
    structure(answer$value, se = answer$se)
}

logLik.pu_model <- function(object, ...)
{
    value <- -nrow(object$y) * as.numeric(pu_nll(object))
    structure(value, df = length(object$theta), nobs = sum(!is.na(object$y)), class = "logLik")
}

# Standard errors of theta; NA where the data do not identify it (and a warning).
pu_errors <- function(object)
{
    handle <- pu_handle(object)
    answer <- pu_answer(handle, .Call("pu_r_at", handle, object$theta, "e"))
    stats::setNames(ifelse(is.nan(answer$value), NA, answer$value), names(coef(object)))
}

# A line for each parameter: natural value, theta, its standard error, and the ends of a 95 % interval in natural values.
summary.pu_model <- function(object, ...)
{
    handle <- pu_handle(object)
    se <- pu_errors(object)
    natural <- function(theta) .Call("pu_r_params", handle, theta)$natural
    data.frame(estimate = coef(object), theta = object$theta, se = se, lower = natural(object$theta - 1.96 * se),
               upper = natural(object$theta + 1.96 * se))
}

# Moments of z given y: data x latent.
pu_posterior <- function(object)
{
    handle <- pu_handle(object)
    answer <- pu_answer(handle, .Call("pu_r_moments", handle, object$theta, "z"))
    list(mean = t(answer$mean), sd = sqrt(t(answer$variance)))
}

# What the model says about every entry of y, or of newdata (of the same shape, with NA where a value is wanted): mean, sd of what is
# behind the noise, sd of an observation. A vector of y gives vectors. n.ahead: so many entries more than y has, for series.
predict.pu_model <- function(object, newdata = NULL, n.ahead = 0, ...)
{
    series <- object$model %in% c("noisy_ar", "state_space", "structural")
    if (n.ahead > 0) {
        if (!is.null(newdata)) stop("newdata or n.ahead, not both")
        if (!series) stop("n.ahead is for series")
        if (!is.null(object$keys$regressors) || !is.null(object$keys$times))
            stop("n.ahead needs regressors and times of the future: fit y with NA behind its end, and regressors that go on there")
        newdata <- cbind(object$y, matrix(NA_real_, nrow(object$y), n.ahead))
    }
    if (!is.null(newdata)) {
        object$y <- pu_rows(object$model, newdata)
        if (series) object$keys$length <- ncol(object$y)
        object$state <- list2env(list(handle = pu_make(object$model, object$keys, object$y, sys.call())), parent = emptyenv())
        on.exit(.Call("pu_r_free", object$state$handle))
    }
    handle <- pu_handle(object)
    answer <- pu_answer(handle, .Call("pu_r_moments", handle, object$theta, "y"))
    shape <- if (nrow(object$y) == 1) as.vector else t
    result <- list(mean = shape(answer$mean), sd.fit = shape(sqrt(answer$fit)), sd = shape(sqrt(answer$variance)))
    if (n.ahead > 0) result <- lapply(result, function(x) if (is.matrix(x)) utils::tail(t(x), n.ahead) else utils::tail(x, n.ahead))
    result
}

# nsim data of the model, y and z, in rows. The same seed, the same bits.
simulate.pu_model <- function(object, nsim = 1, seed = 1, ...)
{
    handle <- pu_handle(object)
    answer <- pu_answer(handle, .Call("pu_r_simulate", handle, object$theta, as.double(nsim), as.double(seed)))
    list(y = t(answer$y), z = t(answer$z))
}

# A file that other processes, languages and machines read: pu_model_load in C, numpy.load in Python.
pu_save <- function(object, file, notes = "")
{
    handle <- pu_handle(object)
    pu_check(handle, .Call("pu_r_save", handle, object$theta, notes, path.expand(file)))
    invisible(object)
}

# The model with theta from a file; it is refused where that is of another model.
pu_load <- function(object, file)
{
    handle <- pu_handle(object)
    object$theta <- pu_answer(handle, .Call("pu_r_load", handle, path.expand(file)))$theta
    object
}

print.pu_model <- function(x, ...)
{
    cat("pu model", x$model, "with", nrow(x$y), if (nrow(x$y) == 1) "datum" else "data", "of", ncol(x$y), "entries,",
        sum(is.na(x$y)), "missing\n\n")
    print(coef(x), ...)
    if (inherits(x, "pu_fit"))
        cat("\nNLL", format(x$objective, digits = 9), "per datum;", x$stop, "after", x$steps, "steps\n")
    invisible(x)
}
