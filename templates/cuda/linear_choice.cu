{{! linear_choice.cu - which rows of x a block of decode multiplies, by which weights, and where y goes. }}
{{#chosen}}
    const int choice = (int)blockIdx.y, batch = 1;
    if (choice / {{top_k}} >= s->batch)
        return;
    const int expert = (int)route[choice / {{top_k}} * {{route_row}} + choice % {{top_k}}];
    w += expert * (long long){{device_out}} * {{fn}}_DEPTH;
    x = (const operand *)x + {{choice_row}} * x_step;
    y += choice * (long long){{y_row}};
{{#bias}}
    bias += expert * {{device_out}};
{{/bias}}
{{#weighed}}
    const float by = route[choice / {{top_k}} * {{route_row}} + {{top_k}} + choice % {{top_k}}]; /* of x */
{{/weighed}}
{{/chosen}}
{{^chosen}}
    const int batch = (int)s->batch;
{{/chosen}}
{{#several}}
    w += blockIdx.y * (long long){{device_out}} * {{fn}}_DEPTH;
    x = (const operand *)x + blockIdx.y * {{block_x}};
    y += blockIdx.y * {{block_y}};
{{#twin}}
    y_operands += blockIdx.y * {{block_y}};
{{/twin}}
{{/several}}
